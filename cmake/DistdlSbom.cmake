# SPDX-License-Identifier: Apache-2.0
# What distdl is built with, in the versions that CMake found: distdl.spdx.json (SPDX 2.3), and the table of "distdl version".

# distdl_sbom(fmt VERSION LICENCE [INSIDE]): one package. INSIDE: its code is in our files, not only linked; cmake/third-party-licences.txt has
# its notice, where the licence asks for one.
set(sbom_packages)
set(sbom_relations)
set(sbom_libraries)
function(distdl_sbom name version licence)
  set(relation DYNAMIC_LINK)
  if("INSIDE" IN_LIST ARGN)
    set(relation STATIC_LINK)
  endif()
  set(sbom_packages "${sbom_packages},
    {\"SPDXID\": \"SPDXRef-${name}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\",
     \"licenseConcluded\": \"${licence}\", \"licenseDeclared\": \"${licence}\", \"copyrightText\": \"NOASSERTION\",
     \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false,
     \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"pkg:generic/${name}@${version}\"}]}" PARENT_SCOPE)
  set(sbom_libraries "${sbom_libraries}{\"${name}\", \"${version}\"}, " PARENT_SCOPE)
  set(sbom_relations "${sbom_relations},
    {\"spdxElementId\": \"SPDXRef-distdl\", \"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"SPDXRef-${name}\"}" PARENT_SCOPE)
endfunction()

# distdl_header_version(OUT FILE PREFIX PART...): from lines such as #define NCCL_MAJOR 2.
function(distdl_header_version out file prefix)
  set(version)
  foreach(part ${ARGN})
    file(STRINGS ${file} line REGEX "^#define ${prefix}${part} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE "^#define [A-Z_]+ +([0-9]+).*" "\\1" number "${line}")
    list(APPEND version ${number})
  endforeach()
  list(JOIN version "." version)
  set(${out} ${version} PARENT_SCOPE)
endfunction()

distdl_sbom(boost ${Boost_VERSION} BSL-1.0)
distdl_sbom(cli11 ${CLI11_VERSION} BSD-3-Clause INSIDE)
distdl_sbom(fmt ${fmt_VERSION} MIT)
distdl_sbom(hdf5 ${HDF5_VERSION} BSD-3-Clause)
distdl_sbom(libarchive ${ARCHIVE_VERSION} BSD-2-Clause)
distdl_sbom(libjpeg-turbo ${JPEG_VERSION} "IJG AND BSD-3-Clause AND Zlib")
distdl_sbom(libpng ${PNG_VERSION} libpng-2.0)
distdl_sbom(libwebp ${WEBP_VERSION} BSD-3-Clause)
distdl_sbom(nlohmann-json ${nlohmann_json_VERSION} MIT INSIDE)
distdl_sbom(openssl ${OPENSSL_VERSION} Apache-2.0)
distdl_sbom(pmix ${PMIX_VERSION} BSD-3-Clause-Open-MPI)
distdl_sbom(tomlplusplus ${tomlplusplus_VERSION} MIT INSIDE)
distdl_sbom(ucx ${UCX_VERSION} BSD-3-Clause)
file(STRINGS ${PROJECT_SOURCE_DIR}/src/tokenizer/unicode/unicode_tables.cpp line REGEX "from Unicode [0-9.]+" LIMIT_COUNT 1)
string(REGEX MATCH "from Unicode ([0-9]+.[0-9]+.[0-9]+)" version "${line}")
distdl_sbom(unicode-data "${CMAKE_MATCH_1}" Unicode-3.0 INSIDE)
distdl_sbom(zlib ${ZLIB_VERSION_STRING} Zlib)
distdl_sbom(zstd ${ZSTD_VERSION} "BSD-3-Clause OR GPL-2.0-only")
if(DISTDL_HAVE_ONEDNN)
  distdl_sbom(onednn ${DNNL_VERSION} Apache-2.0)
endif()
if(DISTDL_HAVE_SENTENCEPIECE)
  distdl_sbom(sentencepiece ${SENTENCEPIECE_VERSION} Apache-2.0)
endif()
if(DISTDL_HAVE_SLURM)  # the plug-in alone
  file(STRINGS ${SLURM_INCLUDE_DIR}/slurm/slurm_version.h line REGEX "^#define SLURM_VERSION_NUMBER 0x")
  string(REGEX MATCH "0x(..)(..)(..)" number "${line}")
  math(EXPR major "0x${CMAKE_MATCH_1}")
  math(EXPR minor "100 + 0x${CMAKE_MATCH_2}")  # 22.05
  string(SUBSTRING ${minor} 1 2 minor)
  math(EXPR micro "0x${CMAKE_MATCH_3}")
  distdl_sbom(slurm ${major}.${minor}.${micro} GPL-2.0-or-later)
endif()
if(DISTDL_HAVE_CUDA)  # the plug-ins alone
  distdl_sbom(cuda ${CUDAToolkit_VERSION} LicenseRef-NVIDIA INSIDE)
  distdl_header_version(version ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_ MAJOR MINOR PATCHLEVEL)
  distdl_sbom(cudnn ${version} LicenseRef-NVIDIA)
endif()
if(DISTDL_HAVE_NCCL)
  distdl_header_version(version ${NCCL_INCLUDE_DIR}/nccl.h NCCL_ MAJOR MINOR PATCH)
  distdl_sbom(nccl ${version} BSD-3-Clause)
endif()
if(DISTDL_DYGRAPHS)
  file(STRINGS ${DISTDL_DYGRAPHS} line REGEX "dygraphs/blob/v[0-9.]+/" LIMIT_COUNT 1)
  string(REGEX MATCH "dygraphs/blob/v([0-9.]+)/" version "${line}")
  distdl_sbom(dygraphs "${CMAKE_MATCH_1}" MIT INSIDE)
endif()

string(TIMESTAMP sbom_created "%Y-%m-%dT00:00:00Z" UTC)  # SOURCE_DATE_EPOCH, if it is set
string(UUID sbom_id NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 NAME "distdl ${PROJECT_VERSION} ${sbom_created} ${sbom_packages}" TYPE SHA1)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/distdl.spdx.json @ONLY CONTENT [[{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "distdl-@PROJECT_VERSION@",
  "documentNamespace": "urn:uuid:@sbom_id@",
  "creationInfo": {"created": "@sbom_created@", "creators": ["Tool: CMake-@CMAKE_VERSION@"]},
  "hasExtractedLicensingInfos": [
    {"licenseId": "LicenseRef-NVIDIA", "name": "NVIDIA's licence", "extractedText": "The licence agreements that NVIDIA ships with CUDA and cuDNN."}],
  "packages": [
    {"SPDXID": "SPDXRef-distdl", "name": "distdl", "versionInfo": "@PROJECT_VERSION@",
     "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "The distdl developers",
     "downloadLocation": "NOASSERTION", "filesAnalyzed": false}@sbom_packages@],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-distdl"}@sbom_relations@]
}
]])
install(FILES ${PROJECT_BINARY_DIR}/distdl.spdx.json ${PROJECT_SOURCE_DIR}/cmake/third-party-licences.txt DESTINATION ${CMAKE_INSTALL_DOCDIR})

include(DistdlCommit)
if(NOT DISTDL_COMMIT MATCHES "^[0-9a-f]+$")
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse HEAD
    OUTPUT_VARIABLE DISTDL_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
configure_file(${PROJECT_SOURCE_DIR}/src/app/commands/built_with.cpp.in ${PROJECT_BINARY_DIR}/src/app/built_with.cpp @ONLY)
