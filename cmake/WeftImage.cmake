# SPDX-License-Identifier: Apache-2.0
# The C file that makes the PTX of a source a part of a program: <weft/device/image.h>.
#   cmake -DSOURCE=NAME -DPTX=FILE -DIMAGE=FILE -P WeftImage.cmake
file(STRINGS ${PTX} entries REGEX "\\.entry weft_cuda_kernel_[A-Za-z0-9_]+")
file(STRINGS ${PTX} state REGEX "\\.const .* weft_dev_state\\[" LIMIT_COUNT 1)
set(text "/* Made from ${SOURCE}. */\n#include <weft/device/image.h>\n\nWEFT_IMAGE(\"${SOURCE}\", \"${PTX}\")\n")
if(state)
  string(APPEND text "WEFT_IMAGE_STATE\n")
endif()
foreach(entry ${entries})
  string(REGEX REPLACE ".*weft_cuda_kernel_([A-Za-z0-9_]+).*" "\\1" name "${entry}")
  string(APPEND text "WEFT_IMAGE_KERNEL(${name})\n")
endforeach()
file(WRITE ${IMAGE} "${text}")
