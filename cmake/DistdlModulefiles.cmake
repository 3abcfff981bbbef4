# SPDX-License-Identifier: Apache-2.0

# Installs <prefix>/modules/lmod/distdl/<version>.lua and <prefix>/modules/tcl/distdl/<version>. They are written at
# install time, because only then the prefix is known for sure (cmake --install --prefix).
function(distdl_install_modulefiles)
  set(library_path)
  if(BUILD_SHARED_LIBS AND (CMAKE_SKIP_RPATH OR CMAKE_SKIP_INSTALL_RPATH))
    set(library_path "prepend_path LD_LIBRARY_PATH @prefix@/@lib_dir@")
  endif()
  set(python_path)
  if(DISTDL_HAVE_PYTHON)
    set(python_path "prepend_path PYTHONPATH @prefix@/${DISTDL_PYTHON_DIR}")
    if(IS_ABSOLUTE ${DISTDL_PYTHON_DIR})
      set(python_path "prepend_path PYTHONPATH ${DISTDL_PYTHON_DIR}")
    endif()
  endif()
  install(CODE "
    set(template [[${PROJECT_SOURCE_DIR}/modules/distdl.module.in]])
    set(version [[${PROJECT_VERSION}]])
    set(description [[${PROJECT_DESCRIPTION}]])
    set(doc_dir [[${CMAKE_INSTALL_DOCDIR}]])
    set(bin_dir [[${CMAKE_INSTALL_BINDIR}]])
    set(lib_dir [[${CMAKE_INSTALL_LIBDIR}]])
    set(man_dir [[${CMAKE_INSTALL_MANDIR}]])
    set(share_dir [[${CMAKE_INSTALL_DATADIR}/distdl]])
    set(library_path [[${library_path}]])
    set(python_path [[${python_path}]])
    include([[${PROJECT_SOURCE_DIR}/cmake/WriteModulefiles.cmake]])")
endfunction()
