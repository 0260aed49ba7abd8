# SPDX-License-Identifier: Apache-2.0
# The C file that makes the PTX of a source a part of a program: <weft/device/image.h>.
#   cmake -DSOURCE=NAME -DPTX=FILE -DIMAGE=FILE [-DLZ4=PROGRAM] -P WeftImage.cmake
# With lz4 the PTX is packed.
file(STRINGS ${PTX} entries REGEX "\\.entry weft_cuda_kernel_[A-Za-z0-9_]+")
file(STRINGS ${PTX} state REGEX "\\.const .* weft_dev_state\\[" LIMIT_COUNT 1)
if(LZ4)
  execute_process(COMMAND ${LZ4} -9 -f -q --content-size ${PTX} ${PTX}.lz4 COMMAND_ERROR_IS_FATAL ANY)
  set(PTX ${PTX}.lz4)
endif()
set(text "/* Made from ${SOURCE}. */\n#include <weft/device/image.h>\n\nWEFT_IMAGE(\"${SOURCE}\", \"${PTX}\")\n")
if(state)
  string(APPEND text "WEFT_IMAGE_STATE\n")
endif()
foreach(entry ${entries})
  string(REGEX REPLACE ".*weft_cuda_kernel_([A-Za-z0-9_]+).*" "\\1" name "${entry}")
  string(APPEND text "WEFT_IMAGE_KERNEL(${name})\n")
endforeach()
file(WRITE ${IMAGE} "${text}")
