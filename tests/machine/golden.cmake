# SPDX-License-Identifier: Apache-2.0
# Runs COMMAND (a list) and compares what it prints, and its exit status, with the file GOLDEN.
# With the environment variable WEFT_GOLDEN_UPDATE set, writes the file when it differs, and fails all
# the same: what was written is to be read before it counts.
unset(ENV{COLUMNS})
# " | " stands for a semicolon, which would end a list item on the way here.
string(REPLACE " | " "\\; " COMMAND "${COMMAND}")
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status
                WORKING_DIRECTORY ${DIRECTORY})
set(text "${output}${errors}")
if(NOT PLAIN)
  string(APPEND text "exit status ${status}\n")
endif()
# The truths beside it: what somebody has checked by hand, so that a file written anew cannot hide a lie. One
# a line, "#" begins a comment and "! " what must not be printed; spaces and ends of lines count as one
# space, so that a truth outlives another column or fold.
string(REGEX REPLACE "\\.txt$" ".truths" TRUTHS ${GOLDEN})
if(EXISTS ${TRUTHS} AND NOT TRUTHS STREQUAL GOLDEN)
  file(STRINGS ${TRUTHS} truths REGEX "^[^#]")
  string(REGEX REPLACE "[ \t\n]+" " " squeezed " ${text} ")
  foreach(truth IN LISTS truths)
    string(REGEX REPLACE "^! " "" words "${truth}")
    string(FIND "${squeezed}" "${words}" at)
    if(truth MATCHES "^! " AND at GREATER -1)
      string(APPEND lies "  must not be printed: ${words}\n")
    elseif(NOT truth MATCHES "^! " AND at EQUAL -1)
      string(APPEND lies "  must be printed: ${words}\n")
    endif()
  endforeach()
  if(lies)
    file(WRITE ${ACTUAL} "${text}")
    message(FATAL_ERROR "${ACTUAL} does not hold the truths of ${TRUTHS}:\n${lies}")
  endif()
endif()
set(expected)
if(EXISTS ${GOLDEN})
  file(READ ${GOLDEN} expected)
endif()
if(text STREQUAL expected)
  return()
endif()
if(DEFINED ENV{WEFT_GOLDEN_UPDATE})
  file(WRITE ${GOLDEN} "${text}")
  message(FATAL_ERROR "${GOLDEN} is written anew; see git diff")
endif()
file(WRITE ${ACTUAL} "${text}")
execute_process(COMMAND diff -u ${GOLDEN} ${ACTUAL})
message(FATAL_ERROR "differs from ${GOLDEN}; if the change is meant: WEFT_GOLDEN_UPDATE=1 ctest -L machine")
