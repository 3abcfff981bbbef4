# SPDX-License-Identifier: Apache-2.0
"""The version of the package, which is that of distdl."""
VERSION = "0.2.0"
