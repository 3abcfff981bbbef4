// SPDX-License-Identifier: Apache-2.0
extern "C" __attribute__((visibility("default"))) int not_a_plugin() {
  return 0;
}
