# SPDX-License-Identifier: Apache-2.0
# Makes one header of <weft_device.h> and all headers of Weft that it includes:
#   awk -f amalgamate.awk FOLDER_OF_HEADERS
# Each header stands where it is included first. A header that several others include must first be
# included outside of #if, so that it is there in every case.

function emit(name,    line, depth, included, path) {
    path = folder "/" name
    while ((status = (getline line < path)) > 0) {
        if (line ~ /^#if/)
            depth++
        else if (line ~ /^#endif/)
            depth--
        if (line !~ /^#include <weft/) {
            print line
            continue
        }
        included = substr(line, 11, index(line, ">") - 11)
        if (!(included in first)) {
            first[included] = within + depth - 1 # each header has one #ifndef around it
            within += depth - 1
            emit(included)
            within -= depth - 1
        } else if (first[included] > 0 && first[included] > within + depth - 1)
            fail(name ": " included " is included here and, inside #if, before")
    }
    if (status < 0)
        fail(path " cannot be read")
    close(path)
}

function fail(text) {
    print "amalgamate.awk: " text > "/dev/stderr"
    exit 1
}

BEGIN {
    folder = ARGV[1]
    print "/* <weft_device.h> and all that it includes, as one header; made when Weft was built. */"
    emit("weft_device.h")
}
