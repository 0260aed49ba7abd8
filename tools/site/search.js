// SPDX-License-Identifier: Apache-2.0
// Usage: node search.js SITE WORDS...
// Runs the search of the site's own script for each argument and prints the places that it lists
// first: "WORDS<tab>PAGE#ID". The page is a stand-in with what the script uses of a document.
'use strict';
const fs = require('fs'), path = require('path'), vm = require('vm');
const [site, ...queries] = process.argv.slice(2);

class Element {
    constructor(tag) { Object.assign(this, { tag, children: [], dataset: {}, hidden: true }); }
    get form() { return new Element('form'); }
    append(...more) { this.children.push(...more); }
    replaceChildren(...all) { this.children = all; }
    addEventListener() { }
    setAttribute() { }
    links() { return this.children.flatMap(one => one.tag === 'a' ? [one] : one.links?.() ?? []); }
}

function search(query) {
    const field = new Element('input'), found = new Element('div'), body = new Element('body');
    field.value = '';
    const context = vm.createContext({
        URLSearchParams,
        location: { search: '?q=' + encodeURIComponent(query) },
        matchMedia: () => ({ matches: false }),
        document: {
            body, currentScript: { dataset: { root: '' } },
            getElementById: id => ({ search: field, found })[id],
            createElement: tag => new Element(tag),
            addEventListener() { }, querySelector: () => null,
        },
    });
    const run = name => vm.runInContext(fs.readFileSync(path.join(site, name), 'utf8'), context);
    body.append = script => { run(script.src); script.onload(); };
    run('site.js');
    return found.links().map(link => link.href);
}

for (const query of queries)
    for (const place of search(query).slice(0, 3)) console.log(query + '\t' + place);
