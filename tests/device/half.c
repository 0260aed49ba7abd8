/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit real types of the reductions on simt: every value survives the conversion to binary32 and
 * back; values between two neighbours round to the nearer one, and ties to even. */
#include <weft/device/arithmetic.h>

#include <math.h>
#include <stdio.h>

static int failures;

static void expect(const char *what, uint32_t got, uint32_t wanted)
{
    if (got == wanted)
        return;
    fprintf(stderr, "%s is %#x, not %#x\n", what, got, wanted);
    failures++;
}

int main(void)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float half = weft_dev_f32_f16((uint16_t)bits), brain = weft_dev_f32_bf16((uint16_t)bits);
        if (half == half)
            expect("a half", weft_dev_f16_f32(half), bits);
        if (brain == brain)
            expect("a bfloat16", weft_dev_bf16_f32(brain), bits);
    }
    /* Between two neighbours of each magnitude, including subnormals. */
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        float low = weft_dev_f32_f16((uint16_t)bits), high = weft_dev_f32_f16((uint16_t)(bits + 1));
        float middle = (low + high) / 2;
        expect("the middle", weft_dev_f16_f32(middle), bits + (bits & 1));
        expect("below it", weft_dev_f16_f32(nextafterf(middle, 0)), bits);
        expect("above it", weft_dev_f16_f32(nextafterf(middle, INFINITY)), bits + 1);
        expect("its negative", weft_dev_f16_f32(-middle), 0x8000 | (bits + (bits & 1)));
    }
    expect("65519", weft_dev_f16_f32(65519.0f), 0x7bff);
    expect("65520", weft_dev_f16_f32(65520.0f), 0x7c00);
    expect("infinity", weft_dev_f16_f32(INFINITY), 0x7c00);
    expect("not a number", weft_dev_f16_f32(NAN) & 0x7c00, 0x7c00);
    expect("not a number's mantissa", (weft_dev_f16_f32(NAN) & 0x3ff) != 0, 1);
    expect("bfloat16 not a number", (weft_dev_bf16_f32(NAN) & 0x7f) != 0, 1);
    expect("bfloat16 middle", weft_dev_bf16_f32(weft_dev_f32_bits(0x3f808000)), 0x3f80);
    expect("bfloat16 odd middle", weft_dev_bf16_f32(weft_dev_f32_bits(0x3f818000)), 0x3f82);
    return failures != 0;
}
