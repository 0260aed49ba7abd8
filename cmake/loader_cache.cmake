# SPDX-License-Identifier: Apache-2.0
# After an installation that is no package's: lets the loader know of the library. Without the right to
# it nothing is lost but that a program in a folder of the loader's needs `ldconfig` by an administrator.
if(NOT "$ENV{DESTDIR}" STREQUAL "" OR CMAKE_INSTALL_COMPONENT)
  return()
endif()
execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
if(user EQUAL 0 AND EXISTS /sbin/ldconfig)
  execute_process(COMMAND /sbin/ldconfig)
endif()
