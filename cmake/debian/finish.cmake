# SPDX-License-Identifier: Apache-2.0
# CPack runs this between installing and packing: what Debian's policy asks for, and an install tree elsewhere does not have.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(version ${CPACK_DEBIAN_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, if it is set
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} name)
  set(package ${CPACK_DEBIAN_${name}_PACKAGE_NAME})
  set(usr ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_INSTALL_PREFIX})
  set(documents ${usr}/share/doc/${package})
  if(NOT component STREQUAL "runtime")
    file(MAKE_DIRECTORY ${usr}/share/doc)
    file(CREATE_LINK distdl ${documents} SYMBOLIC)
    continue()
  endif()
  file(WRITE ${documents}/changelog.Debian "distdl (${version}) unstable; urgency=medium

  * Packed by \"make deb\". The changes are in CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(COPY_FILE ${CPACK_DISTDL_SOURCES}/cmake/debian/copyright ${documents}/copyright)
  file(REMOVE ${documents}/LICENSE)  # copyright says where the system has it
  file(GLOB pages ${usr}/share/man/man1/*.1)
  execute_process(COMMAND gzip -9 -n ${pages} ${documents}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${usr}/share/zsh/site-functions)
    file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions)
  endif()
endforeach()
