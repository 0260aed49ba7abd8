/* SPDX-License-Identifier: Apache-2.0 */
/* Parses XML into a tree of elements with line numbers, for all importers of XML. See import.h. */
#include "machine/import/import.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

const char *xml_value(const struct xml_node *node, const char *key)
{
    for (size_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].key, key) == 0)
            return node->attributes[i].value;
    return NULL;
}

bool xml_is(const struct xml_node *node, const char *name)
{
    return strcmp(node->name, name) == 0;
}

#ifdef WEFT_HAVE_EXPAT

#include <expat.h>

enum { DEPTH_MOST = 256, ELEMENTS_MOST = 65536, ATTRIBUTES_MOST = 256, TAG_MOST = 1 << 20 };

struct parse {
    struct import *im;
    XML_Parser parser;
    struct xml_node *root, *at;
    char *text; /* text since the last tag, not terminated */
    size_t n_text, text_capacity;
    int depth, elements;
    weft_status status; /* error of this file, not of expat */
};

static unsigned long line_of_parser(const struct parse *p)
{
    return (unsigned long)XML_GetCurrentLineNumber(p->parser);
}

static void refuse(struct parse *p, const char *what)
{
    if (!p->status)
        p->status = import_fail(p->im, line_of_parser(p), "%s", what);
    XML_StopParser(p->parser, XML_FALSE);
}

static void keep_attributes(struct parse *p, struct xml_node *node, const XML_Char **pairs)
{
    size_t n = 0;
    while (pairs[2 * n])
        n++;
    if (n > ATTRIBUTES_MOST) {
        refuse(p, "an element has more than 256 attributes");
        return;
    }
    struct xml_attribute *kept = machine_alloc(p->im->machine, n * sizeof *kept);
    for (size_t i = 0; i < n; i++) {
        kept[i].key = machine_printf(p->im->machine, "%s", pairs[2 * i]);
        kept[i].value = machine_printf(p->im->machine, "%s", pairs[2 * i + 1]);
    }
    node->attributes = kept;
    node->n_attributes = n;
}

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct parse *p = data;
    if (p->status)
        return;
    if (++p->depth > DEPTH_MOST) {
        refuse(p, "elements are nested more than 256 levels deep");
        return;
    }
    if (++p->elements > ELEMENTS_MOST) {
        refuse(p, "there are more than 65536 elements");
        return;
    }
    struct xml_node *node = machine_alloc(p->im->machine, sizeof *node);
    node->name = machine_printf(p->im->machine, "%s", name);
    node->line = line_of_parser(p);
    node->parent = p->at;
    p->n_text = 0;
    keep_attributes(p, node, attributes);
    if (!p->at)
        p->root = node;
    else if (p->at->last)
        p->at->last->next = node;
    else
        p->at->first = node;
    if (p->at)
        p->at->last = node;
    p->at = node;
}

static void XMLCALL on_end(void *data, const XML_Char *name)
{
    struct parse *p = data;
    (void)name;
    if (p->status)
        return;
    if (!p->at->first && p->n_text)
        p->at->text = machine_printf(p->im->machine, "%.*s", (int)p->n_text, p->text);
    p->n_text = 0;
    p->depth--;
    p->at = p->at->parent;
}

/* expat passes the text of an element in parts. Space before the text is not kept, and ends of
 * lines in it are blanks. */
static void XMLCALL on_text(void *data, const XML_Char *text, int length)
{
    struct parse *p = data;
    size_t n = (size_t)length;
    while (!p->n_text && n && strchr(" \t\r\n", *text)) {
        text++;
        n--;
    }
    if (p->status || !n)
        return;
    if (p->n_text + n > p->text_capacity) {
        p->text_capacity = 2 * (p->n_text + n);
        p->text = realloc(p->text, p->text_capacity);
        if (!p->text)
            abort();
    }
    for (size_t i = 0; i < n; i++)
        p->text[p->n_text++] = strchr("\t\r\n", text[i]) ? ' ' : text[i];
}

/* No topology file declares entities, and a few nested ones can expand to any size. */
static void XMLCALL on_entity(void *data, const XML_Char *entity, int parameter,
                              const XML_Char *value, int length, const XML_Char *base,
                              const XML_Char *system, const XML_Char *public,
                              const XML_Char *notation)
{
    (void)entity, (void)parameter, (void)value, (void)length;
    (void)base, (void)system, (void)public, (void)notation;
    refuse(data, "the file declares XML entities, which weft does not read: replace them by text");
}

static weft_status end_parse(struct parse *p, enum XML_Status status)
{
    if (p->status)
        return p->status;
    if (status == XML_STATUS_OK)
        return WEFT_OK;
    enum XML_Error error = XML_GetErrorCode(p->parser);
    bool cut = error == XML_ERROR_NO_ELEMENTS || error == XML_ERROR_UNCLOSED_TOKEN ||
               error == XML_ERROR_PARTIAL_CHAR || error == XML_ERROR_UNCLOSED_CDATA_SECTION;
    return import_fail(p->im, line_of_parser(p), "%s%s", XML_ErrorString(error),
                       cut ? " (the file is truncated)" : "");
}

/* expat buffers a whole tag with all its attributes before it calls a handler. */
static bool tags_are_short(const char *text, size_t length)
{
    const char *end = text + length;
    for (const char *tag = memchr(text, '<', length); tag;
         tag = memchr(tag, '<', (size_t)(end - tag))) {
        const char *closed = memchr(tag, '>', (size_t)(end - tag));
        if ((closed ? closed : end) - tag > TAG_MOST)
            return false;
        if (!closed)
            return true;
        tag = closed;
    }
    return true;
}

weft_status import_xml(struct import *im, const char *text, size_t length, struct xml_node **root)
{
    *root = NULL;
    if (!tags_are_short(text, length))
        return import_fail(im, 1, "a tag is longer than 1 MiB");
    struct parse p = {.im = im, .parser = XML_ParserCreate(NULL)};
    if (!p.parser)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no memory to parse XML", im->name);
    XML_SetUserData(p.parser, &p);
    XML_SetElementHandler(p.parser, on_start, on_end);
    XML_SetCharacterDataHandler(p.parser, on_text);
    XML_SetEntityDeclHandler(p.parser, on_entity);
    weft_status status = end_parse(&p, XML_Parse(p.parser, text, (int)length, XML_TRUE));
    XML_ParserFree(p.parser);
    free(p.text);
    if (!status)
        *root = p.root;
    return status;
}

#else

weft_status import_xml(struct import *im, const char *text, size_t length, struct xml_node **root)
{
    (void)text, (void)length;
    *root = NULL;
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "%s is XML, but this weft was built without expat: install libexpat1-dev and "
                     "build again",
                     im->name);
}

#endif
