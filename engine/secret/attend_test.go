package secret

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A sealed file that cannot be used is told as soon as its design is in force, before anything needs the secret, and no
// longer once a good one is.
func TestWhatCannotBeOpenedIsToldBeforeItIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := sealedStore(t, nil)
		id, err := sealed.Create(key, sealed.Classic)
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := sealed.Create(filepath.Join(t.TempDir(), "other.key"), sealed.Classic)
		if err != nil {
			t.Fatal(err)
		}
		told := ""
		s.Watch(func(err error) {
			if told = ""; err != nil {
				told = err.Error()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Attend(ctx) }()
		good := sealedSite(t, id, map[string]string{"mon": sealedText, "os": sealedText})
		const file = "secrets/mon.age"
		city := sealedSite(t, id, map[string]string{"mon": sealedText})
		city.Name = "city"
		wrong := map[string]struct {
			file []byte
			says string
		}{
			"another secret":   {good.Sealed.Files["secrets/os.age"], `it holds the secret "os" of the site "fra", not "mon" of "fra"`},
			"other recipients": {sealedSite(t, stranger, map[string]string{"mon": sealedText}).Sealed.Files[file], "secrets/mon.age"},
			"cut off":          {good.Sealed.Files[file][:len(good.Sealed.Files[file])/2], "it is cut off or was changed"},
		}
		in := func(d *site.Site) {
			s.InForce(d)
			synctest.Wait()
		}
		for what, w := range wrong {
			d := *good
			d.Sealed = &site.SealedFiles{Folder: "secrets", Files: map[string][]byte{file: w.file, "secrets/os.age": good.Sealed.Files["secrets/os.age"]}}
			in(&d)
			if !strings.Contains(told, `credential "mon" cannot be used: secrets/mon.age`) || !strings.Contains(told, w.says) || strings.Contains(told, `credential "os"`) {
				t.Errorf("%s: %q", what, told)
			}
			if strings.Contains(told, "canary") {
				t.Errorf("%s: the value is in what people read", what)
			}
			in(good)
			if told != "" {
				t.Errorf("%s: the good file is in force: %q", what, told)
			}
		}
		in(city)
		if !strings.Contains(told, `of the site "fra", not "mon" of "city"`) {
			t.Errorf("another site: %q", told)
		}
		// Without its identity the host can open none, until it is back.
		s.Unseal(key+".gone", nil)
		in(good)
		if !strings.Contains(told, `credential "mon" cannot be used: secrets/mon.age cannot be opened: there is no identity on this host`) {
			t.Errorf("without an identity: %q", told)
		}
		s.Unseal(key, nil)
		time.Sleep(attendEvery)
		synctest.Wait()
		if told != "" {
			t.Errorf("with the identity again: %q", told)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
