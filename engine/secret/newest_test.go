package secret

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sops"
)

// dated are the files of a site with one credential, as they were at some time.
type dated struct {
	old, rekeyed, new, ahead *site.Site
	set                      time.Time // of new
}

// datedSealed are files of age. The one that was rekeyed is the new one, encrypted again.
func datedSealed(t *testing.T, id sealed.Identity) dated {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	of := func(set time.Time, value string) *site.Site {
		return sealedSiteOf(t, id, set, map[string]string{"bmc": strings.Replace(sealedText, "canary-1", value, 1)})
	}
	return dated{
		old: of(now.Add(-2*time.Hour), "leaked-1"), new: of(now.Add(-time.Hour), "canary-1"), rekeyed: of(now.Add(-time.Hour), "canary-1"),
		ahead: of(now.Add(time.Hour), "ahead-1"), set: now.Add(-time.Hour),
	}
}

// datedSOPS are files of SOPS, whose times are those of their last change.
func datedSOPS(t *testing.T, id sealed.Identity) dated {
	t.Helper()
	r, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	of := func(changed time.Time, value string) *site.Site {
		c, err := sops.New("site.sops.yaml", []sealed.Recipient{r})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.PutCredential("bmc", "fra", []byte(strings.Replace(sealedText, "canary-1", value, 1))); err != nil {
			t.Fatal(err)
		}
		f, err := c.File(changed)
		if err != nil {
			t.Fatal(err)
		}
		text, err := f.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return &site.Site{Name: "fra", Credentials: map[string]*site.Credential{"bmc": {From: site.FromSOPS, File: "site.sops.yaml", Key: "bmc"}},
			Sealed: &site.SealedFiles{Folder: "secrets", Files: map[string][]byte{"secrets/site.sops.yaml": text}}}
	}
	return dated{
		old: of(now.Add(-2*time.Hour), "leaked-1"), new: of(now.Add(-time.Hour), "canary-1"), rekeyed: of(now.Add(-time.Hour), "canary-1"),
		ahead: of(now.Add(time.Hour), "ahead-1"), set: now.Add(-time.Hour),
	}
}

// An older file that somebody put back is refused: the newest value that was opened
// goes on, also where the records alone know of it.
func TestOlderFileIsRefused(t *testing.T) {
	for kind, files := range map[string]func(*testing.T, sealed.Identity) dated{"sealed": datedSealed, "sops": datedSOPS} {
		t.Run(kind, func(t *testing.T) {
			s, key := sealedStore(t, nil)
			id, err := sealed.Create(key, sealed.Classic)
			if err != nil {
				t.Fatal(err)
			}
			d := files(t, id)
			recorded, failing, told := map[string]time.Time{}, true, ""
			record := func(name string, at time.Time) error {
				if failing {
					return errors.New("no space left on device")
				}
				recorded[name] = at
				return nil
			}
			s.Remember(nil, record)
			s.Watch(func(err error) {
				if told = ""; err != nil {
					told = err.Error()
				}
			})
			get := func(d *site.Site, want string) {
				t.Helper()
				s.InForce(d)
				for range 2 { // the second time from memory
					if v, err := s.Get(request("bmc")); err != nil || v.Reveal() != want {
						t.Errorf("got %q, %v; want %q", v.Reveal(), err, want)
					}
				}
			}
			get(d.old, "leaked-1")
			failing = false
			get(d.new, "canary-1")
			get(d.rekeyed, "canary-1")
			if told != "" || !maps.EqualFunc(recorded, map[string]time.Time{"bmc": d.set}, time.Time.Equal) {
				t.Fatalf("told %q, recorded %v", told, recorded)
			}
			get(d.old, "canary-1")
			for _, want := range []string{`credential "bmc": secrets/`, "is older than the one that Slipway opened before", "slipway secret set bmc", "goes on with the newer value until it restarts"} {
				if !strings.Contains(told, want) {
					t.Errorf("told %q, want %q", told, want)
				}
			}
			get(d.new, "canary-1")
			if told != "" {
				t.Errorf("after the new one is back: told %q", told)
			}
			s.InForce(d.old) // nobody asks for the credential any more
			s.InForce(&site.Site{Name: "fra"})
			if s.trouble(); told != "" {
				t.Errorf("told %q of a credential that no design has", told)
			}

			after := open(t, t.TempDir())
			after.Unseal(key, nil)
			after.Remember(recorded, record)
			after.InForce(d.old)
			for range 2 {
				v, err := after.Get(request("bmc"))
				if !errors.Is(err, ErrMissing) || !v.IsZero() || !strings.Contains(err.Error(), "no longer has the newer value") || strings.Contains(err.Error(), "leaked") {
					t.Errorf("after a restart: got %v", err)
				}
			}
			after.InForce(d.new)
			if v, err := after.Get(request("bmc")); err != nil || v.Reveal() != "canary-1" {
				t.Errorf("the new one after a restart: %v", err)
			}

			lost := open(t, t.TempDir())
			lost.Unseal(key, nil)
			lost.Remember(nil, record)
			lost.InForce(d.old)
			if v, err := lost.Get(request("bmc")); err != nil || v.Reveal() != "leaked-1" {
				t.Errorf("with lost records: %v", err)
			}
		})
	}
}

// A time in the future would have all later values refused.
func TestFileOfTheFutureIsRefused(t *testing.T) {
	for kind, files := range map[string]func(*testing.T, sealed.Identity) dated{"sealed": datedSealed, "sops": datedSOPS} {
		t.Run(kind, func(t *testing.T) {
			s, key := sealedStore(t, nil)
			id, err := sealed.Create(key, sealed.Classic)
			if err != nil {
				t.Fatal(err)
			}
			d := files(t, id)
			var recorded []time.Time
			s.Remember(nil, func(_ string, at time.Time) error { recorded = append(recorded, at); return nil })
			s.InForce(d.ahead)
			if _, err := s.Get(request("bmc")); err == nil || !strings.Contains(err.Error(), "in the future") || !strings.Contains(err.Error(), "clock") || len(recorded) > 0 {
				t.Errorf("got %v, recorded %v", err, recorded)
			}
			s.InForce(d.new)
			if v, err := s.Get(request("bmc")); err != nil || v.Reveal() != "canary-1" || !slices.EqualFunc(recorded, []time.Time{d.set}, time.Time.Equal) {
				t.Errorf("got %v, recorded %v", err, recorded)
			}
			s.InForce(d.ahead)
			if v, err := s.Get(request("bmc")); err != nil || v.Reveal() != "canary-1" {
				t.Errorf("with a newer value at hand: got %v", err)
			}
		})
	}
}
