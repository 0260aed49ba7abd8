/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 in reductions, compared with binary64 arithmetic: all 256 values of both types match their
 * definition and survive the conversion to binary32 and back; every midpoint of two neighbours and
 * its two adjacent floats round to nearest even; values that are too large, infinity and NaN. */
#include <weft/device/narrow.h>

#include <math.h>
#include <stdio.h>

static int failures;

struct kind {
    const char *name;
    weft_type type;
    int digits, bias, largest; /* bits of the fraction; of the exponent; bit pattern of the largest
                                  finite number */
};

static const struct kind kinds[] = {{"E4M3", WEFT_FP8_E4M3, 3, 7, 0x7e},
                                    {"E5M2", WEFT_FP8_E5M2, 2, 15, 0x7b}};

static void expect(const struct kind *k, const char *what, uint32_t of, uint32_t got,
                   uint32_t wanted)
{
    if (got == wanted)
        return;
    fprintf(stderr, "%s, %s %#x: %#x, not %#x\n", k->name, what, of, got, wanted);
    failures++;
}

static uint8_t narrow(const struct kind *k, double x)
{
    return (uint8_t)weft_dev_narrow_f32(k->type, (float)x);
}

static double by_definition(const struct kind *k, uint32_t bits)
{
    int exponent = (int)(bits & 0x7f) >> k->digits, fraction = (int)bits & ((1 << k->digits) - 1);
    double x = exponent ? ldexp((1 << k->digits) + fraction, exponent - k->bias - k->digits)
                        : ldexp(fraction, 1 - k->bias - k->digits);
    return bits & 0x80 ? -x : x;
}

static void every_value(const struct kind *k)
{
    for (uint32_t bits = 0; bits < 256; bits++) {
        float x = weft_dev_f32_narrow(k->type, (uint16_t)bits);
        int magnitude = (int)bits & 0x7f, infinite = k->type == WEFT_FP8_E5M2 && magnitude == 0x7c;
        if (infinite) {
            expect(k, "infinity", bits, isinf(x) && !signbit(x) == !(bits & 0x80), 1);
            expect(k, "infinity back", bits, narrow(k, x), (bits & 0x80) | 0x7b);
        } else if (magnitude > k->largest) {
            expect(k, "not a number", bits, isnan(x) != 0, 1);
            expect(k, "not a number back", bits, narrow(k, x), 0x7f);
        } else {
            expect(k, "value", bits, weft_dev_bits_f32(x),
                   weft_dev_bits_f32((float)by_definition(k, bits)));
            expect(k, "value back", bits, narrow(k, x), bits);
        }
    }
}

static void every_middle(const struct kind *k)
{
    for (uint32_t bits = 0; bits < (uint32_t)k->largest; bits++) {
        double low = by_definition(k, bits), high = by_definition(k, bits + 1);
        float middle = (float)((low + high) / 2), first = (float)low;
        expect(k, "middle above", bits, narrow(k, middle), bits + (bits & 1));
        expect(k, "its negative", bits, narrow(k, -middle), 0x80 | (bits + (bits & 1)));
        expect(k, "below the middle above", bits, narrow(k, nextafterf(middle, 0)), bits);
        expect(k, "above the middle above", bits, narrow(k, nextafterf(middle, INFINITY)),
               bits + 1);
        expect(k, "just above", bits, narrow(k, nextafterf(first, INFINITY)), bits);
        expect(k, "just below the next", bits, narrow(k, nextafterf((float)high, 0)), bits + 1);
    }
}

static void ends(const struct kind *k)
{
    double largest = by_definition(k, (uint32_t)k->largest);
    uint32_t bits = (uint32_t)k->largest;
    expect(k, "above the largest", 0, narrow(k, nextafterf((float)largest, INFINITY)), bits);
    expect(k, "twice the largest", 0, narrow(k, -2 * largest), 0x80 | bits);
    expect(k, "the largest float", 0, narrow(k, 3.4028234e38), bits);
    expect(k, "infinity", 0, narrow(k, INFINITY), bits);
    expect(k, "negative infinity", 0, narrow(k, -INFINITY), 0x80 | bits);
    expect(k, "NaN", 0, narrow(k, NAN), 0x7f);
    expect(k, "negative NaN", 0, narrow(k, -NAN), 0x7f);
    expect(k, "-0", 0, narrow(k, -0.0), 0x80);
    expect(k, "the least float", 0, weft_dev_narrow_f32(k->type, weft_dev_f32_bits(1)), 0);
    expect(k, "the least negative", 0, weft_dev_narrow_f32(k->type, weft_dev_f32_bits(0x80000001u)),
           0x80);
}

int main(void)
{
    for (int i = 0; i < 2; i++) {
        every_value(&kinds[i]);
        every_middle(&kinds[i]);
        ends(&kinds[i]);
    }
    return failures != 0;
}
