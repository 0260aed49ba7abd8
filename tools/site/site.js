// SPDX-License-Identifier: Apache-2.0
// Search in the site's index, which is loaded with the first search: all words must be in an entry.
// Without this script every page is as readable; only the field for the search is hidden.
'use strict';
(function () {
    const root = document.currentScript.dataset.root;
    const field = document.getElementById('search');
    const found = document.getElementById('found');
    let entries = null;

    // How well an entry has a word: 0 = not at all.
    function weight(entry, word) {
        if (entry.name === word) return 100;
        if (entry.name.startsWith(word)) return 40;
        if (entry.name.includes(word)) return 20;
        if (entry.title === word) return 60;
        if (entry.title.includes(word)) return 15;
        if (entry.words.includes(' ' + word)) return 4;
        return entry.words.includes(word) ? 2 : 0;
    }

    function search(words) {
        const results = [];
        for (const entry of entries) {
            let sum = 0;
            for (const word of words) {
                const part = weight(entry, word);
                if (!part) { sum = 0; break; }
                sum += part;
            }
            if (sum) results.push([sum * entry.rank, entry]);
        }
        return results.sort((a, b) => b[0] - a[0]).map(result => result[1]);
    }

    function element(tag, text) {
        return Object.assign(document.createElement(tag), { textContent: text });
    }

    // Text as nodes, with the words marked.
    function marked(text, words, parent) {
        const escaped = words.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
        text.split(new RegExp('(' + escaped.join('|') + ')', 'i')).forEach((part, i) => {
            parent.append(i % 2 ? element('mark', part) : part);
        });
    }

    function show() {
        const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        found.hidden = !words.length;
        if (!words.length || !entries) return;
        const results = search(words);
        const list = document.createElement('ol');
        for (const entry of results.slice(0, 40)) {
            const item = document.createElement('li');
            const link = element('a', entry.heading || entry.page_title);
            link.href = root + entry.page + (entry.id ? '#' + entry.id : '');
            item.append(link);
            if (entry.heading && entry.heading !== entry.page_title)
                item.append(' ', element('small', entry.page_title));
            const at = Math.max(0, ...words.map(word => entry.text.toLowerCase().indexOf(word)));
            const from = entry.text.lastIndexOf(' ', Math.max(0, at - 60)) + 1;
            const text = document.createElement('div');
            const cut = from + 180 < entry.text.length ? /\S*$/ : '';
            marked(entry.text.slice(from, from + 180).replace(cut, ''), words, text);
            item.append(text);
            list.append(item);
        }
        const count = document.createElement('p');
        count.setAttribute('role', 'status');
        count.textContent = results.length + (results.length === 1 ? ' place' : ' places') +
            (results.length > 40 ? ', the best 40 of them:' : results.length ? ':' : ' found');
        found.replaceChildren(count, list);
    }

    // The index is a script, because a page of file:// may not fetch.
    function load() {
        if (document.getElementById('index')) return;
        const script = document.createElement('script');
        script.id = 'index';
        script.src = root + 'index.js';
        script.onload = function () {
            entries = weft_index.entries.map(([number, id, heading, text]) => {
                const [page, page_title, rank] = weft_index.pages[number];
                return {
                    page, page_title, rank, id, heading, text,
                    name: (heading || page_title).toLowerCase(),
                    title: page_title.toLowerCase(),
                    words: ' ' + text.toLowerCase(),
                };
            });
            show();
        };
        document.body.append(script);
    }

    field.form.hidden = false;
    field.form.addEventListener('submit', event => {
        event.preventDefault();
        const first = found.querySelector('a');
        if (first) first.click();
    });
    field.addEventListener('focus', load);
    field.addEventListener('input', () => { load(); show(); });
    document.addEventListener('click', event => {
        if (event.target.closest('#found a') || !event.target.closest('#found, #search'))
            found.hidden = true;
    });
    document.addEventListener('keydown', event => {
        if (event.key === 'Escape') found.hidden = true;
        if (event.key === '/' && !/^(INPUT|TEXTAREA)$/.test(event.target.tagName)) {
            event.preventDefault();
            field.focus();
        }
    });

    const wanted = new URLSearchParams(location.search).get('q');
    if (wanted) { field.value = wanted; load(); }
    // The navigation shows this page; where there is room for the contents, they are open.
    const here = document.querySelector('nav.site [aria-current]');
    if (here) here.closest('nav').scrollTop = here.offsetTop - 200;
    const contents = document.querySelector('.contents:not(.long)');
    if (contents && matchMedia('(min-width: 84rem)').matches) contents.open = true;
}());
