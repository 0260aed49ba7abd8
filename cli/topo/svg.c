/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --svg`: writes the drawing of a machine as SVG. See draw.h for its contents. */
#include "topo/topo.h"

#include <errno.h>
#include <string.h>

#include "commands.h"
#include "topo/draw.h"

struct paint {
    const char *fill, *stroke;
    double radius;
};

static const struct paint paints[] = {
    [DRAW_HOST] = {"#ffffff", "#3f4d5a", 10}, [DRAW_PACKAGE] = {"#f4f6f8", "#8a97a5", 8},
    [DRAW_ROOT] = {"#e9eef4", "#9aa9b8", 6},  [DRAW_BRIDGE] = {"#dbe4ee", "#8599ad", 6},
    [DRAW_GPU] = {"#d3ecb0", "#4f7f00", 5},   [DRAW_NIC] = {"#cfe2fb", "#2b62a8", 5},
    [DRAW_DISK] = {"#fdeec4", "#a07d1c", 5},  [DRAW_FABRIC] = {"#b9e07f", "#4f7f00", 8},
};

#define FAULT "#c62828"
#define TEXT  "#1c2733"

/* Colour of lines to a switch: each NVLink domain with its own bus line has its own colour. */
static const char *domain_colour(int domain)
{
    static const char *const colours[] = {"#5e9600", "#1f6fb4", "#8e44ad", "#c05a00", "#00808c"};
    return colours[domain < 0 ? 0 : domain % 5];
}

void svg_text(FILE *to, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
        }
}

/* Writes text, cut and ended with "..." when it is wider than `room`. */
static void write_svg_text(FILE *to, double x, double y, double room, double size, bool bold,
                           const char *anchor, const char *text)
{
    char cut[200];
    snprintf(cut, sizeof cut, "%.196s", text);
    size_t n = strlen(cut);
    while (n > 3 && draw_text_width(cut, size, bold) > room) {
        n--;
        while (n > 3 && ((unsigned char)cut[n] & 0xc0) == 0x80)
            n--;
        snprintf(cut + n - 3, 4, "...");
        cut[n] = '\0';
    }
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\"%s text-anchor=\"%s\">", x, y, size,
            bold ? " font-weight=\"bold\"" : "", anchor);
    svg_text(to, cut);
    fputs("</text>\n", to);
}

static void write_heading(FILE *to, const struct draw_box *b)
{
    double name = draw_text_width(b->name, DRAW_FONT, true);
    double more = draw_text_width(b->more, DRAW_SMALL, false);
    write_svg_text(to, b->x + 10, b->y + 15, b->w - 14, DRAW_FONT, true, "start", b->name);
    if (*b->more && 10 + name + 8 + more <= b->w - 4)
        write_svg_text(to, b->x + 10 + name + 8, b->y + 15, more + 1, DRAW_SMALL, false, "start",
                       b->more);
}

static void write_box(FILE *to, const struct draw_box *b)
{
    const struct paint *paint = &paints[b->kind];
    fprintf(to,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" fill=\"%s\" "
            "stroke=\"%s\"%s/>\n",
            b->x, b->y, b->w, b->h, paint->radius, paint->fill,
            b->fault                                   ? FAULT
            : b->kind == DRAW_FABRIC && b->domain >= 0 ? domain_colour(b->domain)
                                                       : paint->stroke,
            b->fault ? " stroke-width=\"3\"" : "");
    if (b->kind <= DRAW_BRIDGE) {
        write_heading(to, b);
        return;
    }
    double middle = b->x + b->w / 2, centre = b->y + b->h / 2;
    write_svg_text(to, middle, *b->more ? centre - 3 : centre + 4, b->w - 4, DRAW_FONT, true,
                   "middle", b->name);
    if (*b->more)
        write_svg_text(to, middle, centre + 12, b->w - 4, DRAW_SMALL, false, "middle", b->more);
}

static void write_svg_line(FILE *to, const struct draw_line *l)
{
    if (l->fault) {
        fprintf(to,
                "<path d=\"M%.1f %.1fV%.1fH%.1fV%.1f\" fill=\"none\" stroke=\"" FAULT "\" "
                "stroke-width=\"%g\" stroke-dasharray=\"5 3\"/>\n",
                l->x1, l->y1, l->down, l->x2, l->y2, l->width);
        return;
    }
    fprintf(to,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%g\"/>\n",
            l->x1, l->y1, l->x2, l->y2,
            l->weak  ? FAULT
            : l->cpu ? "#5b6b7b"
                     : domain_colour(l->domain),
            l->width);
}

static void draw_label(FILE *to, const struct draw_line *l)
{
    double w = draw_text_width(l->label, DRAW_SMALL, l->fault) + 2;
    if (!*l->label)
        return;
    if (!l->cpu)
        fprintf(to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\" fill=\"#ffffff\" "
                "fill-opacity=\"0.85\"/>\n",
                l->lx - w / 2, l->ly - 6, w);
    if (l->fault)
        fputs("<g fill=\"" FAULT "\">", to);
    write_svg_text(to, l->lx, l->ly + 4, w, DRAW_SMALL, l->fault, "middle", l->label);
    if (l->fault)
        fputs("</g>\n", to);
}

void topo_draw_svg(const struct drawing *d, FILE *to)
{
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" "
            "fill=\"" TEXT
            "\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<title>",
            d->w, d->h, d->w, d->h);
    svg_text(to, d->title);
    fputs("</title>\n", to);
    write_svg_text(to, DRAW_MARGIN, 30, d->w - 2 * DRAW_MARGIN, DRAW_TITLE, true, "start",
                   d->title);
    write_svg_text(to, DRAW_MARGIN, 50, d->w - 2 * DRAW_MARGIN, DRAW_FONT, false, "start",
                   d->subtitle);
    for (int kind = DRAW_HOST; kind <= DRAW_FABRIC;
         kind++) /* frames are drawn before their content */
        for (int i = 0; i < d->n_boxes; i++)
            if ((int)d->boxes[i].kind == kind)
                write_box(to, &d->boxes[i]);
    for (int i = 0; i < d->n_lines; i++)
        write_svg_line(to, &d->lines[i]);
    for (int i = 0; i < d->n_lines; i++)
        draw_label(to, &d->lines[i]);
    for (int i = 0; i < d->n_notes; i++) {
        fprintf(to, "<g fill=\"%s\">", i < d->first_fault_note ? TEXT : FAULT);
        write_svg_text(to, d->notes_x, d->notes_y + 18 * i, d->w - 2 * DRAW_MARGIN, DRAW_FONT,
                       false, "start", d->notes[i]);
        fputs("</g>\n", to);
    }
    fputs("</svg>\n", to);
}

void topo_svg(const struct machine *machine, FILE *to)
{
    struct drawing drawing;
    draw_machine(machine, &drawing);
    topo_draw_svg(&drawing, to);
    draw_free(&drawing);
}
