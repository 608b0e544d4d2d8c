package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// way is how an installer comes to a machine: as a virtual CD, or by HTTP boot
// (UEFI 2.10, section 24.7), for which its firmware fetches the same image
// itself.
type way struct {
	target schemas.BootSource // of the one boot; empty for a CD that cannot be booted
	drive  slot               // without a path where there is none
}

func (w way) byHTTP() bool { return w.target == schemas.UefiHTTPBootSource }

// image is the URL of what the machine was given, empty for nothing.
func (w way) image(s system) string {
	if w.byHTTP() {
		return s.httpURI()
	}
	return w.drive.image()
}

// armed says whether the next boot is from what the machine was given.
func (w way) armed(s system) bool {
	if w.byHTTP() {
		return s.bootsOnce(w.target)
	}
	return s.bootsNext(w.target)
}

func (w way) loaded(s system) bool { return w.drive.inserted() || w.byHTTP() && s.httpURI() != "" }

// installByHTTP is Boot.InstallBy for HTTP boot.
const installByHTTP = "http"

// installWays are all that Boot.InstallBy may be.
var installWays = []string{"", "media", installByHTTP}

// way is the designed way.
func (m *machine) way(ctx context.Context, n *site.Node, s system) (way, error) {
	drive, err := m.media(ctx, s)
	w, err := m.wayBy(n.Boot.InstallBy, s, drive, err)
	if n.References.Start == site.StartNetwork && errors.Is(err, errors.ErrUnsupported) {
		return way{drive: drive}, nil // the machine needs no medium
	}
	return w, err
}

// wayBy is the way that is asked for, of a machine with a drive or an error that
// says why there is none; where none is asked for the CD, and HTTP where the
// machine has no use for a CD.
func (m *machine) wayBy(asked string, s system, drive slot, err error) (way, error) {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return way{}, err
	}
	cd, bootable := s.override(m.cdTargets()...)
	switch {
	case asked == installByHTTP && !s.takesHTTP():
		return way{}, fmt.Errorf("the machine cannot be given a URL to boot from (HttpBootUri); leave the design's boot.installBy out: %w", errors.ErrUnsupported)
	case asked == installByHTTP, asked == "" && (err != nil || !bootable) && s.takesHTTP():
		return way{schemas.UefiHTTPBootSource, drive}, nil
	}
	return way{cd, drive}, err
}

// httpURI is where the firmware boots from when it is told to by HTTP (DSP0268
// 6.30, HttpBootUri).
func (s system) httpURI() string { return at[string](s.object, "Boot", httpURI) }

const httpURI = "HttpBootUri"

// takesHTTP says whether a machine can be told to boot by HTTP, and from where.
func (s system) takesHTTP() bool {
	_, settable := at[object](s.object, "Boot")[httpURI]
	_, source := s.override(schemas.UefiHTTPBootSource)
	return settable && source
}

// bootsHTTP says whether the next boot, and only that, is by HTTP.
func bootsHTTP(s system) bool { return s.bootsOnce(schemas.UefiHTTPBootSource) }

// giveURI has a boot by HTTP be from a URL, and proves it. It is a write of its
// own, after that of the override: one of them that the BMC carries out when
// nobody waits for it any more leads to no installer.
func (m *machine) giveURI(ctx context.Context, s system, url string) (system, error) {
	if s.httpURI() == url {
		return s, nil
	}
	uri, err := json.Marshal(url)
	if err != nil {
		return s, err
	}
	once := boot{Enabled: schemas.OnceBootSourceOverrideEnabled, Target: schemas.UefiHTTPBootSource, Mode: schemas.UEFIBootSourceOverrideMode, URI: uri}
	forms := append([]boot{{URI: uri}}, m.overrideForms(s, once)...)
	if err := m.tryForms(ctx, s, httpURI, forms); err != nil {
		return s, err
	}
	return m.until(ctx, m.opts.Settle, "the next boot to be from the image's URL", func(s system) bool { return bootsHTTP(s) && s.httpURI() == url })
}

// cancelHTTP takes the override back together with its URL, and proves it. A BMC
// that keeps the URL all the same does not go by it without the override.
func (m *machine) cancelHTTP(ctx context.Context, s system) (system, error) {
	off := boot{Enabled: schemas.DisabledBootSourceOverrideEnabled}
	forms := append(m.withoutURI(s), m.overrideForms(s, off)...)
	if s.httpURI() == "" {
		forms = m.overrideForms(s, off)
	}
	if err := m.tryForms(ctx, s, overrideTarget, forms); err != nil {
		return s, err
	}
	return m.until(ctx, m.opts.Settle, "the boot override to be disabled", func(s system) bool { return !bootsHTTP(s) })
}

// withoutURI are the ways to have neither an override nor a URL.
func (m *machine) withoutURI(s system) (forms []boot) {
	for _, uri := range noURI {
		forms = append(forms, m.overrideForms(s, boot{Enabled: schemas.DisabledBootSourceOverrideEnabled, URI: uri})...)
	}
	return forms
}

// noURI are the ways to say that there is no URL.
var noURI = []json.RawMessage{json.RawMessage("null"), json.RawMessage(`""`)}

// unload takes out what a machine was given to install from, and proves it.
func (m *machine) unload(ctx context.Context, w way, s system) error {
	if err := m.eject(ctx, w.drive); err != nil || !w.byHTTP() || s.httpURI() == "" {
		return err
	}
	forms := append([]boot{{URI: noURI[0]}, {URI: noURI[1]}}, m.withoutURI(s)...)
	if err := m.tryForms(ctx, s, httpURI, forms); err != nil {
		return err
	}
	_, err := m.until(ctx, m.opts.Settle, "the image's URL to be gone", func(s system) bool { return s.httpURI() == "" })
	return err
}
