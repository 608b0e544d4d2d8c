package web

import (
	"testing"

	"github.com/slipway-gitops/slipway/tests/browser"
)

// Changes that come faster than a page can place them are shown in their order, and the last of each part in the end. The
// reader stays at the same place of the page, with the same link in focus, also where the whole list is replaced.
func TestBrowserPlacesQuickChangesInOrder(t *testing.T) {
	b := browser.Open(t)
	h := houseOf(t, &fleet{said: "as it says", reason: "Installs generation 2", size: 474, racked: true})
	w := b.Window(t, desk)
	w.Go(h.at("/sites/berlin/racks"))
	w.Until(`document.getElementById("alive").textContent === "· live"`)
	w.Get(`void (async () => {
		`+untold+`
		const list = document.getElementById("list").cloneNode(true), racks = [...document.querySelectorAll("#list figure")].map(f => f.id), last = {};
		const rounds = 12, turned = (f, round) => { f.querySelector("title").textContent = "round " + round; return f.outerHTML; };
		window.wrong = [];
		new MutationObserver(changes => {
			for (const added of changes.flatMap(c => [...c.addedNodes])) {
				const figures = added.matches?.("figure") ? [added] : [...added.querySelectorAll?.("figure") ?? []];
				for (const f of figures) {
					const round = Number(f.textContent.match(/round (\d+)/)?.[1] ?? 0);
					if (round < last[f.id]) wrong.push(f.id + " goes back from " + last[f.id] + " to " + round);
					last[f.id] = round;
				}
			}
		}).observe(document.querySelector("main"), { childList: true, subtree: true });
		window.read = document.getElementById("rack-r7");
		read.scrollIntoView();
		read.querySelector("a").focus({ preventScroll: true });
		await placed();
		window.before = { top: read.getBoundingClientRect().top, link: document.activeElement.getAttribute("href") };
		for (let round = 1; round <= rounds; round++) {
			const parts = {};
			for (const id of racks) parts[id] = turned(list.querySelector("#" + id), round);
			list.querySelector("p").textContent = "12 racks in round " + round;
			told(round % 5 === 3 ? { list: list.outerHTML } : parts);
			await new Promise(then => setTimeout(then, round % 3 ? 0 : 20));
		}
	})()`, nil)
	w.Until(`[...document.querySelectorAll("#list figure")].every(f => f.textContent.includes("round 12"))`)
	var got struct {
		Wrong    []string
		Around   string
		Moved    float64
		Was, Now string
		Scrolled float64
		Replaced bool
	}
	w.Get(`(() => { const r = document.getElementById("rack-r7"), at = document.activeElement;
		return { Wrong: wrong, Scrolled: scrollY, Around: document.querySelector("#list p").textContent, Moved: r.getBoundingClientRect().top - before.top, Was: before.link, Now: r.contains(at) ? at.getAttribute("href") : at.tagName, Replaced: r !== read };
	})()`, &got)
	if len(got.Wrong) > 0 || got.Around != "12 racks in round 8" || got.Moved < -2 || got.Moved > 2 || got.Was == "" || got.Now != got.Was || !got.Replaced {
		t.Errorf("after 12 rounds: %+v", got)
	}
	if all := w.Complaints(); len(all) > 0 {
		t.Error(all)
	}
}

// The list of keys takes the focus, and gives it back to the row that had it.
func TestBrowserListOfKeysHasFocus(t *testing.T) {
	b := browser.Open(t)
	h := houseOf(t, &fleet{said: "as it says", reason: "Installs generation 2", size: 30})
	w := b.Window(t, desk)
	w.Go(h.at("/sites/berlin/nodes"))
	const row, inside = `document.activeElement.closest("tr.chosen") !== null`, `document.activeElement.closest("#keys:popover-open") !== null`
	w.Press("j")
	w.Until(row)
	w.Press("?")
	w.Until(inside)
	w.Press("j")
	w.Press("Escape")
	w.Until(row + ` && !document.getElementById("keys").matches(":popover-open")`)
	w.Press("?")
	w.Until(inside)
	w.Press("Enter")
	w.Until(row + ` && !document.getElementById("keys").matches(":popover-open")`)
	if all := w.Complaints(); len(all) > 0 {
		t.Error(all)
	}
}
