# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=... -DSHARE=... -P WriteManual.cmake: writes the man page and the completions of the shells, which the program prints
# itself. PROGRAM may begin with an emulator. A program that cannot run on the machine that builds it is no failure: all else can be installed.
foreach(row "man/man1/distdl.1|help;--man" "bash-completion/completions/distdl|completion;bash"
    "zsh/site-functions/_distdl|completion;zsh" "fish/vendor_completions.d/distdl.fish|completion;fish")
  string(REGEX MATCH "^(.*)[|](.*)$" matched "${row}")
  set(file ${CMAKE_MATCH_1})
  set(words ${CMAKE_MATCH_2})
  execute_process(COMMAND ${PROGRAM} ${words} OUTPUT_VARIABLE text ERROR_VARIABLE why RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(WARNING "man page and completions are not written: ${PROGRAM} ${words} ends with ${code}: ${why}")
    return()
  endif()
  file(WRITE ${SHARE}/${file} "${text}")
endforeach()
