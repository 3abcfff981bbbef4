# SPDX-License-Identifier: Apache-2.0
# Components of cmake --install, and Debian packages of them by CPack ("make deb"):
#   runtime      distdl               the program, shared libraries, documents, scripts, examples
#   development  distdl-dev           headers, links or static libraries, CMake package, .pc files
#   python       python3-distdl       the Python package, the same for all architectures
#   slurm        distdl-slurm-plugin  apart, because libslurm is GPL
#   cuda         distdl-cuda-plugin   apart, because CUDA, cuDNN and NCCL are not in Debian
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_SET_DESTDIR ON)  # the modulefiles name the prefix
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
# Who builds a package maintains it: named as for Debian's own tools. The top-level domain "invalid" belongs to nobody.
set(contact "The distdl developers <nobody@distdl.invalid>")
if(DEFINED ENV{DEBEMAIL})
  set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_CONTACT "${contact}" CACHE STRING "Maintainer of packages, as NAME <ADDRESS>")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/finish.cmake)
set(CPACK_DISTDL_SOURCES ${PROJECT_SOURCE_DIR})  # for that script

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(version ${CPACK_DEBIAN_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY} ${CUDAToolkit_LIBRARY_DIR})

set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME distdl)
set(shared distdl)
if(BUILD_SHARED_LIBS)
  list(TRANSFORM distdl_folders PREPEND distdl_ OUTPUT_VARIABLE folders)
  list(APPEND shared ${folders})
endif()
set(shlibs)
foreach(library ${shared})
  string(APPEND shlibs "lib${library} ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} distdl (>= ${PROJECT_VERSION})\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/shlibs CONTENT "${shlibs}" @ONLY)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/triggers CONTENT "activate-noawait ldconfig\n" @ONLY)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS python3)  # the demo, programs to compare with
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "slurm-client, distdl-dev, distdl-slurm-plugin, python3-distdl")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "\
distdl trains models on the nodes of a cluster, and on one machine. A run
survives preemptions, time limits and lost nodes, and ends with the weights
that it would have had without them. This package has the program, its
libraries, documents, batch scripts, modulefiles and examples.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME distdl-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
# What find_package(distdl) and pkg-config look for.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "distdl (= ${version}), libfmt-dev, libcli11-dev, nlohmann-json3-dev, libtomlplusplus-dev, libssl-dev, \
zlib1g-dev, libzstd-dev, libjpeg62-turbo-dev, libpng-dev, libwebp-dev, libarchive-dev, libboost-log-dev, libboost-date-time-dev, libhdf5-dev, libucx-dev, libpmix-dev")
if(DISTDL_HAVE_SENTENCEPIECE)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libsentencepiece-dev, libprotobuf-dev")  # its .pc asks for protobuf-lite.pc
endif()
if(DISTDL_HAVE_ONEDNN)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libdnnl-dev")
endif()
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "\
This package has the headers, and the files by which CMake (find_package) and
pkg-config find the libraries of distdl: for programs of one's own that
communicate, save checkpoints or train.")

if(DISTDL_HAVE_PYTHON)
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-distdl)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), distdl (= ${version})")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-numpy, python3-pandas, python3-torch")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/cmake/debian/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION "\
This package has the module distdl for Python programs, and for PyTorch: stop
and resume under Slurm, collectives, sums with the same bits on any number of
ranks, checkpoints, and what runs have recorded.")
endif()
if(TARGET distdl_slurm_plugin)
  list(APPEND CPACK_COMPONENTS_ALL slurm)
  set(CPACK_DEBIAN_SLURM_PACKAGE_NAME distdl-slurm-plugin)
  set(CPACK_DEBIAN_SLURM_PACKAGE_DEPENDS "distdl (= ${version})")
  set(CPACK_COMPONENT_SLURM_DESCRIPTION "\
With this plug-in distdl asks Slurm by way of libslurm, and not by commands.
It fits the release of Slurm for which it was built. libslurm is GPL.")
endif()
if(TARGET distdl_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME distdl-cuda-plugin)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION contrib/science)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "distdl (= ${version})")
  set(CPACK_COMPONENT_CUDA_DESCRIPTION "\
With this plug-in distdl computes on GPUs of NVIDIA. It needs CUDA ${CUDAToolkit_VERSION_MAJOR}
and cuDNN 9, and for collectives by NCCL also NCCL, from NVIDIA or elsewhere.")
endif()
include(CPack)
