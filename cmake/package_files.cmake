# SPDX-License-Identifier: Apache-2.0
# Run by CPack on what a package will hold: manual pages are compressed, as packages of Debian have
# them; a page that is only another name of one becomes a link to it.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_DIRECTORY}/*.[0-9])
list(FILTER pages INCLUDE REGEX "/share/man/man[0-9]/[^/]*$")
foreach(page ${pages})
  file(READ ${page} text LIMIT 200)
  get_filename_component(folder ${page} DIRECTORY)
  if(text MATCHES "^\\.so man[0-9]/([^\n]+)\n")
    file(REMOVE ${page})
    file(CREATE_LINK ${CMAKE_MATCH_1}.gz ${page}.gz SYMBOLIC)
  else()
    execute_process(COMMAND gzip -9n ${page})
  endif()
endforeach()
