# SPDX-License-Identifier: Apache-2.0
# The commit that a release holds: "git archive" fills it in.
set(DISTDL_COMMIT "$Format:%H$")
