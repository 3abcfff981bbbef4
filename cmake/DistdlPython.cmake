# SPDX-License-Identifier: Apache-2.0
# The Python package src/python: where it is installed, and its metadata, by which pip lists it and torch finds the backend.

# Debian's interpreters look in one folder for all versions.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(folder lib/python3/dist-packages)
else()
  set(folder lib/python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}/site-packages)
endif()
set(DISTDL_PYTHON_DIR ${folder} CACHE STRING "Folder of the Python package: of the prefix, or an absolute one")

# distdl_python_metadata(FOLDER): writes METADATA and entry_points.txt from pyproject.toml.
function(distdl_python_metadata folder)
  set(project ${PROJECT_SOURCE_DIR}/src/python/pyproject.toml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${project})
  file(READ ${project} text)
  foreach(key name description requires-python)
    string(REGEX MATCH "\n${key} = \"([^\"]*)\"" matched "${text}")
    set(${key} "${CMAKE_MATCH_1}")
  endforeach()
  string(REGEX MATCH "\n\\[project[.]optional-dependencies\\]\n(([a-z]+ = [^\n]*\n)+)" matched "${text}")
  string(REGEX REPLACE "([a-z]+) = \\[\"([^\"]*)\"\\]\n" "Provides-Extra: \\1\nRequires-Dist: \\2; extra == \"\\1\"\n" extras "${CMAKE_MATCH_1}")
  string(REGEX MATCH "\n\\[project[.]entry-points[.]\"([a-z_.]+)\"\\]\n(([a-z]+ = [^\n]*\n)+)" matched "${text}")
  string(REPLACE "\"" "" entries "[${CMAKE_MATCH_1}]\n${CMAKE_MATCH_2}")
  file(CONFIGURE OUTPUT ${folder}/METADATA @ONLY CONTENT "\
Metadata-Version: 2.1
Name: ${name}
Version: ${PROJECT_VERSION}
Summary: ${description}
License: Apache-2.0
Requires-Python: ${requires-python}
${extras}")
  file(CONFIGURE OUTPUT ${folder}/entry_points.txt CONTENT "${entries}" @ONLY)
endfunction()

function(distdl_install_python)
  if(NOT DISTDL_HAVE_PYTHON)
    return()
  endif()
  install(DIRECTORY src/python/distdl DESTINATION ${DISTDL_PYTHON_DIR} COMPONENT python
    FILES_MATCHING PATTERN "*.py" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  distdl_python_metadata(${PROJECT_BINARY_DIR}/python)
  install(FILES ${PROJECT_BINARY_DIR}/python/METADATA ${PROJECT_BINARY_DIR}/python/entry_points.txt
    DESTINATION ${DISTDL_PYTHON_DIR}/distdl-${PROJECT_VERSION}.dist-info COMPONENT python)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # the loader looks there
    return()
  endif()
  # How the package finds the library, also from a moved prefix.
  set(library ${CMAKE_INSTALL_LIBDIR}/libdistdl.so.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(IS_ABSOLUTE ${DISTDL_PYTHON_DIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    cmake_path(ABSOLUTE_PATH library BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
  else()
    file(RELATIVE_PATH library /${DISTDL_PYTHON_DIR}/distdl /${library})
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/library_path CONTENT "${library}\n" @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/python/library_path DESTINATION ${DISTDL_PYTHON_DIR}/distdl COMPONENT python)
endfunction()
