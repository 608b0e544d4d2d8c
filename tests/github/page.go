package github

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// defaultPage and maxPage are how many items a page has; more is cut down to
// the most without a word.
const defaultPage, maxPage = 30, 100

// paged is the page of a list that was asked for.
func paged[T any](c *call, all []T, view func(T) object) answer {
	return pagedIn(c, all, view, func(page []object) any { return page })
}

// pagedIn is paged for a list inside an object. The links to the other pages
// are of a form that nobody would make up: GitHub's, too, are of
// /repositories/ID, so that whoever builds them by hand fails.
func pagedIn[T any](c *call, all []T, view func(T) object, wrap func([]object) any) answer {
	size := min(c.number("per_page", defaultPage), maxPage)
	page := c.number("page", 1)
	last := max(1, (len(all)+size-1)/size)
	from := min((page-1)*size, len(all))
	items := []object{}
	for _, v := range all[from:min(from+size, len(all))] {
		items = append(items, view(v))
	}
	a := ok(wrap(items))
	if last > 1 {
		a.header = http.Header{"Link": {c.links(page, last)}}
	}
	return a
}

// number is a parameter of the query that is at least one.
func (c *call) number(name string, otherwise int) int {
	n, err := strconv.Atoi(c.r.URL.Query().Get(name))
	if err != nil || n < 1 {
		return otherwise
	}
	return n
}

func (c *call) links(page, last int) string {
	var links []string
	link := func(rel string, n int) {
		q := c.r.URL.Query()
		q.Set("page", strconv.Itoa(n))
		links = append(links, fmt.Sprintf(`<%s?%s>; rel="%s"`, c.self(), q.Encode(), rel))
	}
	if page > 1 {
		link("prev", page-1)
		link("first", 1)
	}
	if page < last {
		link("next", page+1)
		link("last", last)
	}
	return strings.Join(links, ", ")
}

// self is the address of what was asked for, as GitHub links to it.
func (c *call) self() string {
	rest := c.path
	if c.repo != nil {
		rest = strings.TrimPrefix(rest, "/repos/"+c.params["owner"]+"/"+c.params["repo"])
		rest = fmt.Sprintf("/repositories/%d%s", c.repo.id, rest)
	}
	return c.url + apiRoot + rest
}
