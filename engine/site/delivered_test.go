package site_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestDeliveriesAreBoundedAndSayWhatMayBeMissing(t *testing.T) {
	at := time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)
	d := site.Delivered{Since: at}
	give := func(secret, version string) (news bool) {
		at = at.Add(time.Minute)
		d, news = d.With(site.Delivery{Secret: secret, Version: version, To: site.ToBMC, When: at})
		return news
	}
	if !give("a", "1") || give("a", "1") || !give("a", "2") || !give("a", "1") || give("a", "1") {
		t.Errorf("news: %+v", d)
	}
	last := func(d site.Delivered) site.Delivery {
		t.Helper()
		all := d.Lasts("a")
		if len(all) != 1 {
			t.Fatalf("the last of a: %+v", all)
		}
		return all[0]
	}
	if last(d).Version != "1" || len(d.Given) != 2 {
		t.Errorf("a value that came back: %+v", d)
	}
	seen, news := d.With(site.Delivery{Secret: "a", Version: "1", To: site.ToBMC, When: at.Add(time.Hour), Seen: at.Add(time.Hour)})
	if last := last(seen); !news || last.Seen.IsZero() || last.When != at.Add(-time.Minute) && last.When != at {
		t.Errorf("seen: %+v", seen)
	}
	if _, news := seen.With(site.Delivery{Secret: "a", Version: "1", To: site.ToBMC, When: at.Add(2 * time.Hour), Seen: at.Add(2 * time.Hour)}); news {
		t.Error("seen again is news")
	}
	began := d.Since
	for i := range 300 {
		give("b", fmt.Sprint(i))
	}
	if last(d); len(d.Given) != 200 || !d.Since.After(began) {
		t.Errorf("%d deliveries since %s", len(d.Given), d.Since)
	}
	for _, as := range []string{site.AsLogin, site.AsAccount("x")} {
		d, _ = d.With(site.Delivery{Secret: "a", Version: "3", To: site.ToBMC, As: as, When: at})
	}
	if all := d.Lasts("a"); len(all) != 3 || all[0].Version != "1" {
		t.Errorf("in three places: %+v", all)
	}
	for _, user := range []string{"", "admin", "root"} {
		d, _ = d.With(site.Delivery{Secret: "a", Version: "4", To: site.ToBMC, As: site.AsLogin, User: user, When: at})
	}
	if all := d.Lasts("a"); len(all) != 4 || all[2].User != "admin" || all[3].User != "root" {
		t.Errorf("logins of two accounts: %+v", all)
	}
	d, _ = d.With(site.Delivery{Secret: "a", Version: "5", To: site.ToBMC, As: site.AsAccount("root"), When: at, Seen: at})
	if all := d.Lasts("a"); len(all) != 4 || all[2].User != "admin" || all[3].As != site.AsAccount("root") {
		t.Errorf("with the next password of root: %+v", all)
	}
	if all := d.Unreplaced("a", []string{"4"}); len(all) != 2 || all[0].User != "" || all[1].User != "admin" {
		t.Errorf("not replaced: %+v", all)
	}
	if slices.ContainsFunc(d.Given, func(g site.Delivery) bool { return g.Version == "2" && g.Secret == "a" }) {
		t.Error("what a later value replaced is kept for longer than the present ones")
	}
}
