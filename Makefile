# SPDX-License-Identifier: Apache-2.0
# The three commands of a new user: make build, make test, make demo. All else is CMake.
BUILD ?= build
CMAKE_FLAGS ?=

.PHONY: deps configure build test bundle clean
deps:
	@cmake/install-dependencies
configure: deps
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS) > /dev/null
build: configure
	@cmake --build $(BUILD)
test: build
	@ctest --test-dir $(BUILD) --output-on-failure
# One archive for a GPU machine; BUNDLE_CUDNN=1 where that has the driver only.
bundle: build
	@cmake/bundle --build $(BUILD) $(if $(filter 1,$(BUNDLE_CUDNN)),--with-cuda-libraries)
clean:
	@rm -rf $(BUILD)
