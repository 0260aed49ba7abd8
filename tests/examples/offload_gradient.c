/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of examples/offload compared with differences of the loss, which loops in double
 * precision compute independently, and Adam's step compared with its formula. Includes the source
 * to access its inputs. */
#include "../../examples/offload/model_device.c"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 3, WIDTH = 10, BATCH = 7, PART = (WIDTH + 1) * WIDTH };

static weft_job *job;
static int faults;

static void must(weft_status status, int line)
{
    if (!status)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, weft_status_name(status), weft_last_error());
    weft_abort(job, 1);
}
#define MUST(call) must((call), __LINE__)

/* The loss of the batch for these parameters. */
static double loss_of(double parameters[LAYERS][PART], const float *inputs)
{
    double sum = 0;
    for (int s = 0; s < BATCH; s++) {
        double x[WIDTH], y[WIDTH];
        for (int j = 0; j < WIDTH; j++)
            x[j] = inputs[s * WIDTH + j];
        for (int l = 0; l < LAYERS; l++) {
            for (int j = 0; j < WIDTH; j++) {
                double z = parameters[l][WIDTH * WIDTH + j];
                for (int k = 0; k < WIDTH; k++)
                    z += x[k] * parameters[l][k * WIDTH + j];
                y[j] = x[j] + (z > 0 ? z : 0);
            }
            for (int j = 0; j < WIDTH; j++)
                x[j] = y[j];
        }
        for (int j = 0; j < WIDTH; j++) {
            double a = inputs[s * WIDTH + (7 * j + 3) % WIDTH];
            double b = inputs[s * WIDTH + (3 * j + 1) % WIDTH];
            double difference = x[j] - (fabs(a) - 0.5 * b);
            sum += difference * difference / (BATCH * WIDTH);
        }
    }
    return sum;
}

/* After step 1 the moments are (1 - beta) times the gradient and its square. */
static void compare(double parameters[LAYERS][PART], const float *inputs, int layer,
                    const float *block)
{
    const double h = 1e-6;
    for (int i = 0; i < PART; i++) {
        double was = parameters[layer][i], up, down;
        parameters[layer][i] = was + h;
        up = loss_of(parameters, inputs);
        parameters[layer][i] = was - h;
        down = loss_of(parameters, inputs);
        parameters[layer][i] = was;
        double expected = (up - down) / (2 * h), seen = block[PART + i] / (1 - 0.9f);
        double second = (1 - 0.999) * seen * seen;
        double after = was - 1e-3 * seen / (fabs(seen) + 1e-8);
        if (fabs(seen - expected) <= 1e-5 + 1e-3 * fabs(expected) &&
            fabs(block[2 * PART + i] - second) <= 1e-9 + 1e-3 * second &&
            fabs(block[i] - after) <= 1e-5)
            continue;
        fprintf(stderr,
                "layer %d, parameter %d: gradient %g in place of %g, %g after in place of %g\n",
                layer, i, seen, expected, (double)block[i], after);
        faults++;
    }
}

int main(void)
{
    const struct model_shape shape = {.layers = LAYERS, .width = WIDTH, .batch = BATCH, .seed = 3};
    static double parameters[LAYERS][PART];
    static float blocks[LAYERS][MODEL_PARTS * PART];
    struct model_work *work;
    MUST(weft_init(&job, NULL));
    MUST(model_work_create(job, &shape, &work));
    for (uint32_t l = 0; l < LAYERS; l++) {
        MUST(model_init_layer(&shape, l, blocks[l]));
        MUST(weft_stream_synchronize(NULL));
        for (int i = WIDTH * WIDTH; i < PART; i++) /* biases different from zero */
            blocks[l][i] = 0.1f * (float)(i % 7) - 0.2f;
        for (int i = 0; i < PART; i++)
            parameters[l][i] = blocks[l][i];
    }
    MUST(model_begin(work, 1));
    for (uint32_t l = 0; l < LAYERS; l++)
        MUST(model_forward(work, l, blocks[l]));
    MUST(model_compare(work));
    for (int l = LAYERS - 1; l >= 0; l--)
        MUST(model_backward(work, (uint32_t)l, blocks[l], 1));
    MUST(weft_stream_synchronize(NULL));
    double loss = loss_of(parameters, work->inputs);
    if (fabs(model_loss(work) - loss) > 1e-5 * loss) {
        fprintf(stderr, "loss %g in place of %g\n", model_loss(work), loss);
        faults++;
    }
    for (int l = 0; l < LAYERS; l++)
        compare(parameters, work->inputs, l, blocks[l]);
    MUST(model_work_destroy(work));
    MUST(weft_finalize(job));
    return faults != 0;
}
