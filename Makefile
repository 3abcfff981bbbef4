# SPDX-License-Identifier: Apache-2.0
# The three commands of a new user: make build, make test, make demo. All else is CMake.
BUILD ?= build
CMAKE_FLAGS ?=

.PHONY: deps configure build test demo sanitize shared bundle clean
deps:
	@cmake/install-dependencies
# Sources are compiled several at a time, and the headers of GoogleTest and of the standard library once for all tests: half the
# processor time of a build, a longer one after a change. CMake alone (cmake --preset default) compiles each file alone.
TOGETHER = -DDISTDL_UNITY=12 -DDISTDL_PRECOMPILE=TESTS
configure: deps
	@cmake -S . -B $(BUILD) -G Ninja $(TOGETHER) -DDISTDL_TESTS=ALL $(CMAKE_FLAGS) > /dev/null
build: configure
	@cmake --build $(BUILD)
test: build
	@ctest --test-dir $(BUILD) --output-on-failure -j 2
demo: configure
	@cmake --build $(BUILD) --target distdl
	@sbatch/demo --distdl $(BUILD)/bin/distdl --dir $(BUILD)/demo $(DEMO_FLAGS)
# The tests that find most with the address and undefined-behaviour sanitizers (by Clang), then those that find most with the thread
# sanitizer (by GCC): docs/builds-and-tests.md.
sanitize:
	@cmake/install-dependencies clang libclang-rt-14-dev libomp-dev
	@for preset in asan tsan; do \
	  cmake --preset $$preset > /dev/null && cmake --build --preset $$preset && ctest --preset $$preset || exit 1; done
# The whole again with shared libraries, which is how Spack builds it unless told otherwise.
shared: deps
	@cmake --preset shared > /dev/null && cmake --build --preset shared && ctest --preset shared
# One archive for a GPU machine; BUNDLE_CUDNN=1 where that has the driver only.
bundle: build
	@cmake/bundle --build $(BUILD) $(if $(filter 1,$(BUNDLE_CUDNN)),--with-cuda-libraries)
clean:
	@rm -rf $(BUILD)
