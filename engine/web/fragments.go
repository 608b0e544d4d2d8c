package web

import (
	"html"
	"maps"
	"strings"
)

// mostAlone is how many rows are sent by themselves: a browser puts many into their places more slowly than all of them at
// once. Pictures always are: the script puts them into their places one after the other, and does other work between.
const mostAlone = 8

const (
	sectionBegin, sectionEnd = `<section id="`, `</section>`
	rowBegin, rowEnd         = `<tr id="`, `</tr>`
	pictureBegin, pictureEnd = `<figure id="`, `</figure>`
)

// fragments are the sections of a page, by id: the parts that change by themselves. No section has another one in it.
func fragments(text []byte) map[string]string {
	all, _ := cut(string(text), sectionBegin, sectionEnd)
	return all
}

// cut takes the elements with an id out of a text, none of which has another one in it. In their places the rest has their
// ids.
func cut(text, begin, end string) (all map[string]string, rest string) {
	all = map[string]string{}
	var b strings.Builder
	for {
		from := strings.Index(text, begin)
		if from < 0 {
			break
		}
		length := strings.Index(text[from:], end)
		if length < 0 {
			break
		}
		b.WriteString(text[:from])
		element := text[from : from+length+len(end)]
		id, _, _ := strings.Cut(element[len(begin):], `"`)
		b.WriteString(id)
		all[html.UnescapeString(id)] = element
		text = text[from+len(element):]
	}
	b.WriteString(text)
	return all, b.String()
}

// differing are the parts that have changed: sections, or some rows and pictures of one where the rest of it is as it was.
func differing(before, now map[string]string) map[string]string {
	changed := map[string]string{}
	for id, text := range now {
		if text == before[id] {
			continue
		}
		picturesBefore, was := cut(before[id], pictureBegin, pictureEnd)
		pictures, rest := cut(text, pictureBegin, pictureEnd)
		rowsBefore, was := cut(was, rowBegin, rowEnd)
		rows, rest := cut(rest, rowBegin, rowEnd)
		some := unlike(rowsBefore, rows)
		if !isSame(rest, was) || len(some) > mostAlone {
			changed[id] = text
			continue
		}
		maps.Copy(changed, some)
		maps.Copy(changed, unlike(picturesBefore, pictures))
	}
	return changed
}

// unlike are the elements that are not as they were before.
func unlike(before, now map[string]string) map[string]string {
	some := map[string]string{}
	for id, text := range now {
		if !isSame(text, before[id]) {
			some[id] = text
		}
	}
	return some
}

// isSame says whether two parts are the same but for time.
func isSame(a, b string) bool { return a == b || timeless(a) == timeless(b) }

// timeless is a part without what changes by time alone: the script counts by itself.
func timeless(text string) string {
	var b strings.Builder
	for {
		from := strings.Index(text, "<time ")
		if from < 0 {
			b.WriteString(text)
			return b.String()
		}
		tag, after, _ := strings.Cut(text[from:], ">") // attributes have it escaped
		b.WriteString(text[:from])
		b.WriteString(tag)
		text = after[max(0, strings.IndexByte(after, '<')):]
	}
}
