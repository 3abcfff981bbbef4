# SPDX-License-Identifier: Apache-2.0
# The three commands of a new user: make build, make test, make demo. All else is CMake.
BUILD ?= build
CMAKE_FLAGS ?=

.PHONY: deps configure build test demo sanitize shared tidy bundle wheel deb dist clean
# All that is used here. "make build" alone installs less, and only if it cannot do without.
deps:
	@cmake/install-dependencies --build --run
# Sources are compiled several at a time, the headers of GoogleTest and of the standard library once for all tests, what tests
# consist of is hardly optimised, and debug information is that of a backtrace: less than half the processor time of a build, a longer one
# after a change. CMake alone (cmake --preset default) compiles each file alone.
TOGETHER = '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG' -DDISTDL_UNITY=12 -DDISTDL_PRECOMPILE=TESTS -DDISTDL_TESTS_OPTIMISED=-Og -DDISTDL_CCACHE=ON
configure:
	@cmake/configure $(BUILD) $(TOGETHER) -DDISTDL_TESTS=ALL $(CMAKE_FLAGS)
build: configure
	@cmake --build $(BUILD)
# What needs Slurm is skipped, or done without, where it cannot be installed. Five tests at a time: many wait most of the time.
test: build
	@cmake/install-dependencies --run || true
	@tests/contained ctest --test-dir $(BUILD) --output-on-failure -j 5
demo: configure
	@cmake/install-dependencies --run || true
	@cmake --build $(BUILD) --target distdl
	@sbatch/demo --distdl $(BUILD)/bin/distdl --dir $(BUILD)/demo $(DEMO_FLAGS)
# The tests that find most with the address and undefined-behaviour sanitizers (by Clang), then those that find most with the thread
# sanitizer (by GCC): docs/builds-and-tests.md.
sanitize:
	@cmake/install-dependencies --build --run clang libclang-rt-14-dev libomp-dev
	@cmake --preset asan > /dev/null && cmake --preset tsan > /dev/null && cmake --build --preset asan
	@nice -n 19 cmake --build --preset tsan > build-tsan/build.log 2>&1 & tests/contained ctest --preset asan; tests=$$?; \
	  wait $$! || { cat build-tsan/build.log; exit 1; }; exit $$tests
	@tests/contained ctest --preset tsan
# The whole again with shared libraries, which is how Spack builds it unless told otherwise.
shared: deps
	@cmake --preset shared > /dev/null && cmake --build --preset shared && tests/contained ctest --preset shared
# clang-tidy on all sources.
tidy:
	@cmake/install-dependencies --build clang-tidy-14
	@cmake --preset tidy > /dev/null && cmake/tidy all build-tidy
# One archive for a GPU machine; BUNDLE_CUDNN=1 where that has the driver only.
bundle: build
	@cmake/bundle --build $(BUILD) $(if $(filter 1,$(BUNDLE_CUDNN)),--with-cuda-libraries)
# The Python package as wheels, in dist: one with the program and its libraries, one without.
wheel: configure
	@cmake --build $(BUILD) --target distdl distdl_capi && cmake/wheel --build $(BUILD) --output dist
# Debian packages for the release of Debian on which this runs: build-deb/packages. The same commit gives the same bytes.
DEB ?= build-deb
deb:
	@cmake/install-dependencies --build dpkg-dev file
	@export SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)}; \
	  cmake --preset deb -B $(DEB) $(CMAKE_FLAGS) > /dev/null && cmake --build $(DEB) && cd $(DEB) && cpack -G DEB
# The release: the archive of the commit that is checked out, and its checksum.
dist:
	@cmake/dist dist
clean:
	@rm -rf $(BUILD)
