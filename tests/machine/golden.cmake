# SPDX-License-Identifier: Apache-2.0
# Runs COMMAND (a list) and compares what it prints, and its exit status, with the file GOLDEN.
# With the environment variable WEFT_GOLDEN_UPDATE set, writes the file instead.
# " | " stands for a semicolon, which would end a list item on the way here.
string(REPLACE " | " "\\; " COMMAND "${COMMAND}")
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status
                WORKING_DIRECTORY ${DIRECTORY})
set(text "${output}${errors}")
if(NOT PLAIN)
  string(APPEND text "exit status ${status}\n")
endif()
if(DEFINED ENV{WEFT_GOLDEN_UPDATE})
  file(WRITE ${GOLDEN} "${text}")
  return()
endif()
file(READ ${GOLDEN} expected)
if(NOT text STREQUAL expected)
  file(WRITE ${ACTUAL} "${text}")
  execute_process(COMMAND diff -u ${GOLDEN} ${ACTUAL})
  message(FATAL_ERROR "differs from ${GOLDEN}; if the change is meant: WEFT_GOLDEN_UPDATE=1 ctest -L machine")
endif()
