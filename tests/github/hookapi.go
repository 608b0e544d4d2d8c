package github

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// hookOf is the hook that a route is about: the repository's of that id, or the
// App's.
func (c *call) hookOf() *Hook {
	for _, h := range c.hooks {
		if (c.repo != nil && h.repo == c.repo && h.id == c.id("hook_id")) || (c.repo == nil && h.app == c.who.app) {
			return h
		}
	}
	return nil
}

// listed are the deliveries that were tried within the last three days, newest
// first.
func (h *Hook) listed() (all []*Delivery) {
	for _, d := range slices.Backward(h.deliveries) {
		if !d.at.IsZero() && h.s.now().Sub(d.at) < hookKept {
			all = append(all, d)
		}
	}
	return all
}

// listDeliveries has pages by cursor: the id of the first that comes next.
func (c *call) listDeliveries() answer {
	h := c.hookOf()
	if h == nil {
		return notFound
	}
	q := c.r.URL.Query()
	all := slices.DeleteFunc(h.listed(), func(d *Delivery) bool {
		return q.Get("status") == "success" && d.code >= 400 || q.Get("status") == "failure" && d.code < 400
	})
	if at := q.Get("cursor"); at != "" {
		from := slices.IndexFunc(all, func(d *Delivery) bool { return fmt.Sprint(d.id) == at })
		if from < 0 {
			return *failed(http.StatusBadRequest, "Invalid cursor", "/rest")
		}
		all = all[from:]
	}
	size := min(c.number("per_page", defaultPage), maxPage)
	a := ok(views(all[:min(size, len(all))], (*Delivery).view))
	if len(all) > size {
		q.Set("cursor", fmt.Sprint(all[size].id))
		a.header = http.Header{"Link": {fmt.Sprintf(`<%s?%s>; rel="next"`, c.self(), q.Encode())}}
	}
	return a
}

func (c *call) delivery() *Delivery {
	h := c.hookOf()
	if h == nil {
		return nil
	}
	all := h.listed()
	i := slices.IndexFunc(all, func(d *Delivery) bool { return d.id == c.id("delivery_id") })
	if i < 0 {
		return nil
	}
	return all[i]
}

func (c *call) getDelivery() answer {
	d := c.delivery()
	if d == nil {
		return notFound
	}
	v := d.view()
	maps.Copy(v, object{
		"url": d.hook.url, "request": object{"headers": flat(d.sent), "payload": json.RawMessage(d.payload)},
		"response": object{"headers": flat(d.got), "payload": textOr(d.answer)},
	})
	return ok(v)
}

// redeliver sends a delivery again, with its GUID.
func (c *call) redeliver() answer {
	d := c.delivery()
	if d == nil {
		return notFound
	}
	d.hook.enqueue(&Delivery{
		hook: d.hook, id: c.nextID(), guid: d.guid, event: d.event, action: d.action, repo: d.repo, install: d.install, payload: d.payload, redelivery: true,
	})
	return answer{status: http.StatusAccepted, body: object{}}
}

func (d *Delivery) view() object {
	v := object{
		"id": d.id, "guid": d.guid, "delivered_at": stamp(d.at), "redelivery": d.redelivery, "duration": d.took.Seconds(), "status": d.status,
		"status_code": d.code, "event": d.event, "action": textOr(d.action), "installation_id": nil, "repository_id": d.repo.id, "throttled_at": nil,
	}
	if d.install != nil {
		v["installation_id"] = d.install.id
	}
	return v
}

func flat(h http.Header) object {
	v := object{}
	for name := range h {
		v[name] = h.Get(name)
	}
	return v
}
