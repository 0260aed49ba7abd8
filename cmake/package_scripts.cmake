# SPDX-License-Identifier: Apache-2.0
# Run by CPack on the packages that it made: the loader's cache is renewed by the trigger that libweft0
# has; the scripts that CPack adds for the same are taken out.
foreach(package ${CPACK_PACKAGE_FILES})
  if(package MATCHES "/libweft0_")
    set(folder ${package}.contents)
    execute_process(COMMAND dpkg-deb --raw-extract ${package} ${folder} COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE ${folder}/DEBIAN/postinst ${folder}/DEBIAN/postrm)
    execute_process(COMMAND dpkg-deb --root-owner-group --build ${folder} ${package} OUTPUT_QUIET
                    COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE_RECURSE ${folder})
  endif()
endforeach()
