/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of examples/train compared with differences of the loss, which loops in double
 * precision compute independently, and AdamW's step compared with its formula. Includes the source
 * to access the layout of the parameters. */
#include "../../examples/train/model.c"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 2, WIDTH = 6, HEADS = 2, CONTEXT = 11, BATCH = 4, LETTERS = 7, MICRO = 3 };
enum { ROWS = BATCH * CONTEXT, EACH = WIDTH / HEADS, LENGTH = 60, MOST = 2000 };

static const model_shape shape = {.layers = LAYERS,
                                  .width = WIDTH,
                                  .heads = HEADS,
                                  .context = CONTEXT,
                                  .batch = BATCH,
                                  .vocabulary = LETTERS,
                                  .micro = MICRO,
                                  .seed = 5};
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

static void multiply(const double *x, const double *w, int inner, int columns, double *y)
{
    for (int j = 0; j < columns; j++) {
        y[j] = 0;
        for (int k = 0; k < inner; k++)
            y[j] += x[k] * w[k * columns + j];
    }
}

static void normalize(const double *x, const double *gain, double *y)
{
    double squares = 0;
    for (int i = 0; i < WIDTH; i++)
        squares += x[i] * x[i];
    for (int i = 0; i < WIDTH; i++)
        y[i] = x[i] / sqrt(squares / WIDTH + 1e-5) * (1 + gain[i]);
}

/* Attention of head `h` at position t over a sequence's rows of qkv. */
static void attend(double qkv[CONTEXT][3 * WIDTH], int t, int h, double *out)
{
    double share[CONTEXT], all = 0;
    for (int u = 0; u <= t; u++) {
        double sum = 0;
        for (int d = h * EACH; d < (h + 1) * EACH; d++)
            sum += qkv[t][d] * qkv[u][WIDTH + d];
        all += share[u] = exp(sum / sqrt(EACH));
    }
    for (int d = h * EACH; d < (h + 1) * EACH; d++) {
        out[d] = 0;
        for (int u = 0; u <= t; u++)
            out[d] += share[u] / all * qkv[u][2 * WIDTH + d];
    }
}

static void layer_of(const double *v, struct layer_place l, double x[CONTEXT][WIDTH])
{
    double normed[WIDTH], qkv[CONTEXT][3 * WIDTH], joined[WIDTH], hidden[4 * WIDTH], out[WIDTH];
    for (int t = 0; t < CONTEXT; t++) {
        normalize(x[t], v + l.gain1, normed);
        multiply(normed, v + l.qkv, WIDTH, 3 * WIDTH, qkv[t]);
    }
    for (int t = 0; t < CONTEXT; t++) {
        for (int h = 0; h < HEADS; h++)
            attend(qkv, t, h, joined);
        multiply(joined, v + l.join, WIDTH, WIDTH, out);
        for (int i = 0; i < WIDTH; i++)
            x[t][i] += out[i];
        normalize(x[t], v + l.gain2, normed);
        multiply(normed, v + l.first, WIDTH, 4 * WIDTH, hidden);
        for (int i = 0; i < 4 * WIDTH; i++)
            hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
        multiply(hidden, v + l.second, 4 * WIDTH, WIDTH, out);
        for (int i = 0; i < WIDTH; i++)
            x[t][i] += out[i];
    }
}

/* The mean over the rows of a micro-batch. */
static double loss_of(const double *v, const uint32_t *ids)
{
    struct places p = places_of(&shape);
    double sum = 0, x[CONTEXT][WIDTH], normed[WIDTH], logits[LETTERS];
    for (int b = 0; b < BATCH; b++) {
        for (int t = 0; t < CONTEXT; t++)
            for (int i = 0; i < WIDTH; i++)
                x[t][i] = v[p.characters + ids[b * CONTEXT + t] * WIDTH + i] +
                          v[p.positions + (size_t)(t * WIDTH + i)];
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            layer_of(v, place_of_layer(&shape, layer), x);
        for (int t = 0; t < CONTEXT; t++) {
            double all = 0;
            normalize(x[t], v + p.gain, normed);
            multiply(normed, v + p.head, WIDTH, LETTERS, logits);
            for (int c = 0; c < LETTERS; c++)
                all += exp(logits[c]);
            sum += log(all) - logits[ids[ROWS + b * CONTEXT + t]];
        }
    }
    return sum / ROWS;
}

static void wrong(const char *what, size_t i, double seen, double expected)
{
    fprintf(stderr, "%s %zu: %.9g in place of %.9g\n", what, i, seen, expected);
    faults++;
}

static void compare_gradients(double *v, size_t n, const uint32_t *ids, const float *seen)
{
    const double h = 1e-6;
    for (size_t i = 0; i < n; i++) {
        double was = v[i], up, down;
        v[i] = was + h;
        up = loss_of(v, ids);
        v[i] = was - h;
        down = loss_of(v, ids);
        v[i] = was;
        double expected = (up - down) / (2 * h) / MICRO;
        if (!(fabs(seen[i] - expected) <= 1e-6 + 1e-4 * fabs(expected)))
            wrong("gradient", i, (double)seen[i], expected);
    }
}

/* Two steps with the same gradients, the second one after the warm-up. */
static void compare_updates(struct model *model, float *values, float *first, float *second,
                            const float *gradients, size_t n)
{
    static double v[MOST], m[MOST], s[MOST];
    for (size_t i = 0; i < n; i++) {
        v[i] = (double)values[i];
        m[i] = s[i] = 0;
    }
    for (int step = 1; step <= 11; step += 10) {
        double rate = step == 1 ? 0.001 : 0.01;
        MUST(model_update(model, values, first, second, gradients, n, (uint64_t)step, 0.01f, NULL));
        for (size_t i = 0; i < n; i++) {
            double g = (double)gradients[i];
            m[i] = 0.9 * m[i] + 0.1 * g;
            s[i] = 0.99 * s[i] + 0.01 * g * g;
            double mean = m[i] / (1 - pow(0.9, step)), square = s[i] / (1 - pow(0.99, step));
            v[i] -= rate * (mean / (sqrt(square) + 1e-8) + 0.01 * v[i]);
        }
    }
    MUST(weft_stream_synchronize(NULL));
    for (size_t i = 0; i < n; i++)
        if (fabs((double)values[i] - v[i]) > 1e-6)
            wrong("updated parameter", i, (double)values[i], v[i]);
}

/* Sequences come from the text, and so do the next characters. */
static void compare_samples(const uint32_t *ids, const uint8_t *text)
{
    for (int b = 0; b < BATCH; b++) {
        bool found = false;
        for (int start = 0; start + CONTEXT < LENGTH && !found; start++) {
            found = true;
            for (int t = 0; t < CONTEXT && found; t++)
                found = ids[b * CONTEXT + t] == text[start + t] &&
                        ids[ROWS + b * CONTEXT + t] == text[start + t + 1];
        }
        if (!found)
            wrong("sequence", (size_t)b, 0, 1);
    }
}

int main(void)
{
    static uint8_t text[LENGTH];
    static double v[MOST];
    static float values[MOST], gradients[MOST], first[MOST], second[MOST];
    size_t n = model_floats(&shape);
    struct model *model;
    double loss;
    for (int i = 0; i < LENGTH; i++)
        text[i] = (uint8_t)((i * i + i / 3) % LETTERS);
    MUST(weft_init(&job, NULL));
    MUST(model_create(job, &shape, text, LENGTH, 0, NULL, &model));
    MUST(model_init(model, values));
    MUST(weft_stream_synchronize(NULL));
    for (size_t i = 0; i < n; i++) /* no value is zero, including the gains */
        v[i] = (double)(values[i] += 0.05f * (float)(int)(i % 7) - 0.14f);
    MUST(model_forward(model, values, 3, 2, &loss, NULL));
    MUST(model_backward(model, values, gradients, NULL));
    MUST(weft_stream_synchronize(NULL));
    compare_samples(model->ids, text);
    if (fabs(loss - loss_of(v, model->ids)) > 1e-5)
        wrong("loss", 0, loss, loss_of(v, model->ids));
    compare_gradients(v, n, model->ids, gradients);
    compare_updates(model, values, first, second, gradients, n);
    MUST(model_destroy(model));
    MUST(weft_finalize(job));
    return faults != 0;
}
