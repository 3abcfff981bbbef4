# SPDX-License-Identifier: Apache-2.0
# cmake --install: program, libraries, public headers, CMake package, pkg-config files, modulefiles, scripts, examples.
# The tree may be moved as a whole; only the modulefiles name their prefix. cmake/DistdlPackages.cmake says what the components are.
include(CMakePackageConfigHelpers)
include(DistdlModulefiles)
include(DistdlPython)

set(DISTDL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/distdl)
set(DISTDL_SHARE_DIR ${CMAKE_INSTALL_DATADIR}/distdl)
set(DISTDL_MAN_DIR ${CMAKE_INSTALL_MANDIR}/man1)

# toml++ built by CMake, as Spack builds it, is headers alone and has no .pc file.
pkg_check_modules(TOMLPLUSPLUS QUIET tomlplusplus)
set(tomlplusplus_module)
if(TOMLPLUSPLUS_FOUND)
  set(tomlplusplus_module tomlplusplus)
endif()

# For each thing that our libraries link: how a consumer of the CMake package finds it (an `if` in
# distdl-config.cmake.in), and how it is said in a .pc file (a module it requires, or -l options).
set(DISTDL_OUTSIDE
  "fmt::fmt,fmt,fmt"
  "CLI11::CLI11,CLI11,"
  "nlohmann_json::nlohmann_json,nlohmann_json,"
  "tomlplusplus::tomlplusplus,tomlplusplus,${tomlplusplus_module}"
  "OpenSSL::Crypto,OpenSSL,libcrypto"
  "ZLIB::ZLIB,ZLIB,zlib"
  "Boost::log,Boost,-lboost_log -lboost_thread -lboost_filesystem"
  "Boost::date_time,Boost,-lboost_date_time"
  "Boost::headers,Boost,"
  "Threads::Threads,Threads,-pthread"
  "OpenMP::OpenMP_CXX,OpenMP,-fopenmp"
  "HDF5::HDF5,HDF5,hdf5"
  "PkgConfig::ZSTD,ZSTD,libzstd >= 1.4"
  "PkgConfig::JPEG,JPEG,libjpeg >= 2"
  "PkgConfig::PNG,PNG,libpng >= 1.6"
  "PkgConfig::WEBP,WEBP,libwebp >= 1"
  "PkgConfig::ARCHIVE,ARCHIVE,libarchive >= 3.4"
  "PkgConfig::SENTENCEPIECE,SENTENCEPIECE,sentencepiece >= 0.1.97"
  "PkgConfig::UCX,UCX,ucx >= 1.12"
  "PkgConfig::PMIX,PMIX,pmix >= 4"
  "DNNL::dnnl,DNNL,-ldnnl"
  "OpenMP::OpenMP_CXX,OpenMP,-fopenmp"
  "CUDA::cudart,CUDAToolkit,-lcudart"
  "CUDA::cudart_static,CUDAToolkit,-lcudart_static -lrt"
  "CUDA::cublas,CUDAToolkit,-lcublas"
  "CUDA::cublasLt,CUDAToolkit,-lcublasLt"
  "CUDA::cuda_driver,CUDAToolkit,-lcuda")

# distdl_outside_of(ITEM FINDER PKGCONFIG): the two columns for one link item.
function(distdl_outside_of item finder pkgconfig)
  foreach(row ${DISTDL_OUTSIDE})
    string(REGEX MATCH "^([^,]+),([^,]*),(.*)$" matched ${row})
    if(CMAKE_MATCH_1 STREQUAL item)
      set(${finder} ${CMAKE_MATCH_2} PARENT_SCOPE)
      set(${pkgconfig} ${CMAKE_MATCH_3} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  if(item MATCHES "^distdl::")
    message(FATAL_ERROR "a library links ${item}, which is not built, or only after it (see the order in src/floors.txt)")
  elseif(item MATCHES "::")
    message(FATAL_ERROR "a library links ${item}, but cmake/DistdlInstall.cmake does not say how a consumer finds it")
  endif()
  set(${finder} "" PARENT_SCOPE)  # a plain library or option goes into the package as it is
  if(item MATCHES "^/")
    get_filename_component(folder ${item} DIRECTORY)
    get_filename_component(name ${item} NAME_WE)
    string(REGEX REPLACE "^lib" "-L${folder} -l" item ${name})
  elseif(NOT item MATCHES "^-")
    set(item -l${item})
  endif()
  set(${pkgconfig} ${item} PARENT_SCOPE)
endfunction()

# What a consumer of a library must find: the global property DISTDL_FINDS_<folder>, with all that its own floors need; and
# its .pc file, whose Requires do the same job link by link.
function(distdl_describe library)
  get_target_property(folder ${library} DISTDL_FOLDER)
  get_target_property(items ${library} LINK_LIBRARIES)
  get_target_property(public ${library} INTERFACE_LINK_LIBRARIES)
  set(finds)
  foreach(visibility "" .private)
    set(requires${visibility})
    set(libs${visibility})
  endforeach()
  foreach(item ${items})
    string(REGEX REPLACE "^distdl::" "distdl_" target "${item}")
    if(NOT item IN_LIST public AND BUILD_SHARED_LIBS)
      set(visibility .private)
    else()
      set(visibility "")  # in a static build a consumer links everything
    endif()
    if(target MATCHES "^distdl_" AND TARGET ${target})
      get_target_property(other ${target} DISTDL_FOLDER)
      get_property(other_finds GLOBAL PROPERTY DISTDL_FINDS_${other})
      list(APPEND finds ${other_finds})
      list(APPEND requires${visibility} "distdl-${other}")
    elseif(item AND NOT item MATCHES "[$]<|^::@")
      distdl_outside_of(${item} finder pkgconfig)
      list(APPEND finds ${finder})
      if(pkgconfig MATCHES "^-")
        list(APPEND libs${visibility} "${pkgconfig}")
      elseif(pkgconfig)
        list(APPEND requires${visibility} "${pkgconfig}")
      endif()
    endif()
  endforeach()
  foreach(what finds requires requires.private libs libs.private)
    list(REMOVE_DUPLICATES ${what})
  endforeach()
  set_property(GLOBAL PROPERTY DISTDL_FINDS_${folder} ${finds})
  distdl_pkgconfig(distdl-${folder} "distdl, the library of its folder ${folder}" "${requires}" "${requires.private}"
    "-ldistdl_${folder};${libs}" "${libs.private}")
endfunction()

function(distdl_pkgconfig name description requires requires_private libs libs_private)
  foreach(what requires requires_private)
    list(JOIN ${what} ", " ${what})
  endforeach()
  foreach(what libs libs_private)
    list(JOIN ${what} " " ${what})
  endforeach()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/distdl.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

function(distdl_install_headers library)
  get_target_property(folder ${library} DISTDL_FOLDER)
  get_target_property(where ${library} DISTDL_HEADER_DIR)
  file(GLOB headers CONFIGURE_DEPENDS ${where}/*.hpp)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/distdl/${folder} COMPONENT development)
endfunction()

# Libraries and their package.
get_property(libraries GLOBAL PROPERTY DISTDL_LIBRARIES)
set(distdl_folders)
set(distdl_component_table)
foreach(library ${libraries})
  distdl_describe(${library})
  distdl_install_headers(${library})
  get_target_property(folder ${library} DISTDL_FOLDER)
  get_property(finds GLOBAL PROPERTY DISTDL_FINDS_${folder})
  list(APPEND distdl_folders ${folder})
  string(APPEND distdl_component_table
    "set(distdl_${folder}_finds ${finds})\n")
endforeach()
install(FILES ${DISTDL_INCLUDE_ROOT}/distdl/version.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/distdl COMPONENT development)
install(TARGETS ${libraries} EXPORT distdl
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development ARCHIVE COMPONENT development)
# The library for C, component "capi", which needs nothing else of ours at a consumer's.
install(TARGETS distdl_capi EXPORT distdl LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
install(FILES src/capi/distdl.h src/data/distdl_source.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES src/capi/fortran/distdl.f90 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/distdl/fortran COMPONENT development)
if(DISTDL_HAVE_FORTRAN)
  install(FILES ${PROJECT_BINARY_DIR}/src/capi/fortran/distdl.mod DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/distdl/fortran
    COMPONENT development OPTIONAL)
endif()
distdl_pkgconfig(distdl-capi "distdl, the library for C" "" "" "-ldistdl" "")
install(EXPORT distdl FILE distdl-targets.cmake NAMESPACE distdl:: DESTINATION ${DISTDL_PACKAGE_DIR} COMPONENT development)
configure_package_config_file(cmake/distdl-config.cmake.in ${PROJECT_BINARY_DIR}/distdl-config.cmake
  INSTALL_DESTINATION ${DISTDL_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/distdl-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/distdl-config.cmake ${PROJECT_BINARY_DIR}/distdl-config-version.cmake
  DESTINATION ${DISTDL_PACKAGE_DIR} COMPONENT development)
list(TRANSFORM distdl_folders PREPEND distdl- OUTPUT_VARIABLE all)
distdl_pkgconfig(distdl "${PROJECT_DESCRIPTION}" "${all}" "" "" "")

# The program, its man page and the completions of the shells, which src/app/CMakeLists.txt lets it write.
install(DIRECTORY DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY DESTINATION ${DISTDL_MAN_DIR})
if(TARGET distdl)
  install(TARGETS distdl)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/man/man1/ DESTINATION ${DISTDL_MAN_DIR} OPTIONAL)
  foreach(shell bash-completion zsh fish)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/share/${shell} DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL)
  endforeach()
endif()

# Not the recipe for Spack: it belongs to the sources, which it finds around itself.
install(DIRECTORY sbatch examples DESTINATION ${DISTDL_SHARE_DIR} USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
# What "distdl bench comm --peers" starts.
install(DIRECTORY bench/peers DESTINATION ${DISTDL_SHARE_DIR}/bench USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(FILES README.md CHANGELOG.md CITATION.cff LICENSE SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
distdl_install_python()
distdl_install_modulefiles()
