/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --svg`: writes the graph in Graphviz' language and lets dot draw it. */
#include "topo.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"

extern char **environ;

static void dot_name(FILE *to, const char *text)
{
    for (fputc('"', to); *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc(*text == '\n' ? ' ' : *text, to);
    }
    fputc('"', to);
}

static void dot_label(FILE *to, const struct machine *m, const struct machine_pci *pci)
{
    for (size_t i = 0; i < m->n_gpus; i++)
        if (text_is(m->gpus[i].bdf, text_or(pci->bdf, "?"))) {
            char label[160];
            snprintf(label, sizeof label, "gpu%" PRId64 "  %.100s", number_or(m->gpus[i].index, -1),
                     text_or(m->gpus[i].name, ""));
            fputs(" [shape=box, style=filled, fillcolor=\"#d5e8d4\", label=", to);
            dot_name(to, label);
            fputs("];\n", to);
            return;
        }
    for (size_t i = 0; i < m->n_nics; i++)
        if (text_is(m->nics[i].bdf, text_or(pci->bdf, "?"))) {
            fputs(" [shape=box, style=filled, fillcolor=\"#dae8fc\", label=", to);
            dot_name(to, text_or(m->nics[i].name, "nic"));
            fputs("];\n", to);
            return;
        }
    for (size_t i = 0; i < m->n_disks; i++)
        if (text_is(m->disks[i].bdf, text_or(pci->bdf, "?"))) {
            fputs(" [shape=cylinder, style=filled, fillcolor=\"#fff2cc\", label=", to);
            dot_name(to, text_or(m->disks[i].name, "disk"));
            fputs("];\n", to);
            return;
        }
    fprintf(to, " [shape=ellipse, label=\"%s\\n%s\"];\n", text_or(pci->kind, "device"),
            text_or(pci->bdf, "?"));
}

static void dot_tree(const struct machine *m, FILE *to)
{
    for (size_t i = 0; i < m->n_pci; i++) {
        const struct machine_pci *pci = &m->pci[i];
        char root[64];
        fputs("  ", to);
        dot_name(to, text_or(pci->bdf, "?"));
        dot_label(to, m, pci);
        snprintf(root, sizeof root, "root complex %.40s", text_or(pci->root, "?"));
        fputs("  ", to);
        dot_name(to, *text_or(pci->parent, "") ? pci->parent.value : root);
        fputs(" -- ", to);
        dot_name(to, text_or(pci->bdf, "?"));
        if (pci->gen.known && pci->width.known)
            fprintf(to, " [label=\"PCIe %" PRId64 " x%" PRId64 "\"]", pci->gen.value,
                    pci->width.value);
        fputs(";\n", to);
    }
}

static void dot_links(const struct machine *m, FILE *to)
{
    bool through_switch = false;
    for (size_t a = 0; a < m->n_gpus; a++) {
        int64_t x = number_or(m->gpus[a].index, -1);
        int up = 0;
        for (size_t i = 0; i < m->n_links; i++)
            up += number_is(m->links[i].gpu, x) && text_is(m->links[i].peer, "switch") &&
                  number_is(m->links[i].active, 1);
        if (up && m->gpus[a].bdf.value) {
            through_switch = true;
            fprintf(to,
                    "  nvswitch -- \"%s\" [label=\"%dx\", color=\"#76b900\", penwidth=3, "
                    "constraint=false];\n",
                    m->gpus[a].bdf.value, up);
        }
        for (size_t b = a + 1; b < m->n_gpus; b++) {
            struct link_bundle bundle = routes_links(m, x, number_or(m->gpus[b].index, -1));
            if (bundle.links && !bundle.through_switch && m->gpus[a].bdf.value &&
                m->gpus[b].bdf.value)
                fprintf(to,
                        "  \"%s\" -- \"%s\" [label=\"%dx\", color=\"#76b900\", penwidth=%d, "
                        "constraint=false];\n",
                        m->gpus[a].bdf.value, m->gpus[b].bdf.value, bundle.links, 1 + bundle.links);
        }
    }
    if (through_switch)
        fputs("  nvswitch [shape=hexagon, label=\"NVSwitch\"];\n", to);
}

void topo_dot(const struct machine *machine, FILE *to)
{
    fputs("graph weft {\n  rankdir=TB; splines=line; node [fontname=sans, fontsize=10];"
          " edge [fontname=sans, fontsize=9];\n",
          to);
    dot_tree(machine, to);
    dot_links(machine, to);
    fputs("}\n", to);
}

int topo_svg(const struct machine *machine, const char *path)
{
    int ends[2], status = 0;
    pid_t child;
    if (pipe(ends) != 0) {
        fprintf(stderr, "weft topo: pipe: %s\n", strerror(errno));
        return EXIT_FAULT;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    char *const arguments[] = {"dot", "-Tsvg", "-o", (char *)path, NULL};
    int error = posix_spawnp(&child, "dot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    if (error) {
        close(ends[1]);
        fprintf(stderr,
                "weft topo: --svg: starting dot: %s; Graphviz draws the picture: "
                "apt-get install graphviz\n",
                strerror(error));
        return EXIT_FAULT;
    }
    FILE *to = fdopen(ends[1], "w");
    if (to) {
        topo_dot(machine, to);
        fclose(to);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "weft topo: --svg: dot %s %d\n",
                WIFEXITED(status) ? "ended with status" : "was killed by signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        return EXIT_FAULT;
    }
    return EXIT_GOOD;
}
