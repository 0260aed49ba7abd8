/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --svg`: writes the drawing of a machine as SVG. See draw.h for its contents. Colours
 * are attributes, for a light background; a viewer that prefers a dark one takes those of the style
 * sheet, by classes. */
#include "topo/topo.h"

#include <errno.h>
#include <string.h>

#include "commands.h"
#include "topo/draw.h"

struct paint {
    const char *fill, *stroke, *dark_fill, *dark_stroke;
    double radius;
};

static const struct paint paints[] = {
    [DRAW_RACK] = {"#ffffff", "#3f4d5a", "#10161c", "#7d8d9c", 10},
    [DRAW_HOST] = {"#ffffff", "#3f4d5a", "#151b22", "#6b7a89", 10},
    [DRAW_PACKAGE] = {"#f4f6f8", "#8a97a5", "#1c242c", "#56646f", 8},
    [DRAW_ROOT] = {"#e9eef4", "#9aa9b8", "#232e38", "#52626f", 6},
    [DRAW_BRIDGE] = {"#dbe4ee", "#8599ad", "#2b3946", "#5d7286", 6},
    [DRAW_GPU] = {"#d3ecb0", "#4f7f00", "#2f4a10", "#8fc93a", 5},
    [DRAW_NIC] = {"#cfe2fb", "#2b62a8", "#17375f", "#6fa8f0", 5},
    [DRAW_DISK] = {"#fdeec4", "#a07d1c", "#4a3b0c", "#d9b44a", 5},
    [DRAW_FABRIC] = {"#b9e07f", "#4f7f00", "#3d6110", "#8fc93a", 8},
};

static const char *const kind_classes[] = {"wk0", "wk1", "wk2", "wk3", "wk4",
                                           "wk5", "wk6", "wk7", "wk8"};

#define FAULT      "#c62828"
#define TEXT       "#1c2733"
#define PAGE       "#ffffff"
#define PAGE_DARK  "#0d1117"
#define DOMAINS    5
#define OTHER_LINE "#5b6b7b" /* between packages, or unknown */

/* Colours of lines to a switch: each NVLink domain with its own bus line has its own colour. */
static const char *const domain_colours[DOMAINS][2] = {{"#5e9600", "#8fc93a"},
                                                       {"#1f6fb4", "#5ab0f0"},
                                                       {"#8e44ad", "#c98bf0"},
                                                       {"#c05a00", "#ff9e4a"},
                                                       {"#00808c", "#3cc8d4"}};

static int colour_of(int domain)
{
    return domain < 0 ? 0 : domain % DOMAINS;
}

/* Classes: wk of a kind of box, wd of a domain's lines, wl of other lines, wf of faults, wr of text
 * about them, wb of what has the colour of the page, wt of text. */
static void write_dark_style(FILE *to)
{
    fputs("<style>@media (prefers-color-scheme:dark){", to);
    for (int kind = 0; kind <= DRAW_FABRIC; kind++)
        fprintf(to, ".wk%d{fill:%s;stroke:%s}", kind, paints[kind].dark_fill,
                paints[kind].dark_stroke);
    for (int i = 0; i < DOMAINS; i++)
        fprintf(to, ".wd%d{stroke:%s}", i, domain_colours[i][1]);
    fputs(".wl{stroke:#9fb0c0}.wf{stroke:#ff6b6b}.wr{fill:#ff8080}.wb{fill:" PAGE_DARK
          "}.wt{fill:#e6edf3}}</style>\n",
          to);
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
    bool coloured = b->kind == DRAW_FABRIC && b->domain >= 0;
    char edge[8] = "";
    if (coloured)
        snprintf(edge, sizeof edge, " wd%d", colour_of(b->domain));
    fprintf(to,
            "<rect class=\"%s%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" "
            "fill=\"%s\" stroke=\"%s\"%s/>\n",
            b->unknown ? "wb wl" : kind_classes[b->kind], b->fault ? " wf" : edge, b->x, b->y, b->w,
            b->h, paint->radius, b->unknown ? PAGE : paint->fill,
            b->fault     ? FAULT
            : b->unknown ? OTHER_LINE
            : coloured   ? domain_colours[colour_of(b->domain)][0]
                         : paint->stroke,
            b->fault     ? " stroke-width=\"3\""
            : b->unknown ? " stroke-dasharray=\"2 4\""
                         : "");
    if (b->kind <= DRAW_BRIDGE) {
        if (b->name_at_left)
            write_svg_text(to, b->x + 10, b->y + b->h / 2 + 4, b->w - 14, DRAW_FONT, true, "start",
                           b->name);
        else
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
                "<path class=\"wf\" d=\"M%.1f %.1fV%.1fH%.1fV%.1f\" fill=\"none\" stroke=\"" FAULT
                "\" stroke-width=\"%g\" stroke-dasharray=\"5 3\"/>\n",
                l->x1, l->y1, l->down, l->x2, l->y2, l->width);
        return;
    }
    bool other = l->cpu || l->unknown;
    char class[8];
    snprintf(class, sizeof class, "wd%d", colour_of(l->domain));
    fprintf(to,
            "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%g\"%s/>\n",
            l->weak ? "wf"
            : other ? "wl"
                    : class,
            l->x1, l->y1, l->x2, l->y2,
            l->weak ? FAULT
            : other ? OTHER_LINE
                    : domain_colours[colour_of(l->domain)][0],
            l->width, l->unknown ? " stroke-dasharray=\"2 4\"" : "");
}

static void draw_label(FILE *to, const struct draw_line *l)
{
    double w = draw_text_width(l->label, DRAW_SMALL, l->fault) + 2;
    if (!*l->label)
        return;
    if (!l->cpu)
        fprintf(to,
                "<rect class=\"wb\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\" fill=\"" PAGE
                "\" fill-opacity=\"0.85\"/>\n",
                l->lx - w / 2, l->ly - 6, w);
    if (l->fault)
        fputs("<g class=\"wr\" fill=\"" FAULT "\">", to);
    write_svg_text(to, l->lx, l->ly + 4, w, DRAW_SMALL, l->fault, "middle", l->label);
    if (l->fault)
        fputs("</g>\n", to);
}

void topo_draw_svg(const struct drawing *d, FILE *to)
{
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" "
            "fill=\"" TEXT "\" class=\"wt\">\n",
            d->w, d->h, d->w, d->h);
    write_dark_style(to);
    fputs("<rect class=\"wb\" width=\"100%\" height=\"100%\" fill=\"" PAGE "\"/>\n<title>", to);
    svg_text(to, d->title);
    fputs("</title>\n", to);
    write_svg_text(to, DRAW_MARGIN, 30, d->w - 2 * DRAW_MARGIN, DRAW_TITLE, true, "start",
                   d->title);
    write_svg_text(to, DRAW_MARGIN, 50, d->w - 2 * DRAW_MARGIN, DRAW_FONT, false, "start",
                   d->subtitle);
    for (int kind = DRAW_RACK; kind <= DRAW_FABRIC;
         kind++) /* frames are drawn before their content */
        for (int i = 0; i < d->n_boxes; i++)
            if ((int)d->boxes[i].kind == kind)
                write_box(to, &d->boxes[i]);
    for (int i = 0; i < d->n_lines; i++)
        write_svg_line(to, &d->lines[i]);
    for (int i = 0; i < d->n_lines; i++)
        draw_label(to, &d->lines[i]);
    for (int i = 0; i < d->n_notes; i++) {
        bool fault = i >= d->first_fault_note;
        fprintf(to, "<g class=\"%s\" fill=\"%s\">", fault ? "wr" : "wt", fault ? FAULT : TEXT);
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
