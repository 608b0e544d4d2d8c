package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/discovery"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// surveyFlags say where to look for machines, and as whom.
type surveyFlags struct {
	ranges                  []string
	port                    int
	credential, credentials string
	ca                      string
	fingerprints            []string
	firstUse                bool
}

func (f *surveyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.ranges, "range", nil, "`CIDR` to look through, such as 10.9.0.0/24; may be given several times")
	flags.IntVar(&f.port, "port", 0, "port of the management controllers; the default is 443")
	flags.StringVar(&f.credential, "credential", "", "`NAME` of the credential to log in with")
	flags.StringVar(&f.ca, "ca", "", "`FILE` with the certificate authorities to trust, as PEM")
	flags.StringSliceVar(&f.fingerprints, "fingerprint", nil, "certificate to trust, by its SHA-256 digest; may be given several times")
	flags.BoolVar(&f.firstUse, "trust-first-use", false, "trust the certificate that a controller shows now, and pin it")
	addCredentials(cmd, &f.credentials)
}

// openSurvey is the survey that the flags ask for, and the credentials that it may use.
func (a *app) openSurvey(f surveyFlags) (discovery.Survey, *secret.Store, error) {
	if f.credential != "" && f.credentials == "" {
		return discovery.Survey{}, nil, usage("--credential needs --credentials: the folder with its file")
	}
	secrets, err := a.openCredentials(f.credentials)
	if err != nil {
		return discovery.Survey{}, nil, err
	}
	s, err := f.survey(secrets)
	return s, secrets, err
}

func (f surveyFlags) survey(secrets *secret.Store) (discovery.Survey, error) {
	s := discovery.Survey{Drivers: drivers(helpers()), Port: f.port, Credential: f.credential, Secrets: secrets}
	if len(f.ranges) == 0 {
		return s, usage("--range CIDR is needed: the addresses of the management controllers, such as 10.9.0.0/24")
	}
	for _, text := range f.ranges {
		r, err := parseRange(text)
		if err != nil {
			return s, usage("--range %q is not a range of addresses such as 10.9.0.0/24", text)
		}
		s.Ranges = append(s.Ranges, r)
	}
	if err := site.CheckRanges(s.Ranges); err != nil {
		return s, usage("--range: %v", err)
	}
	if f.port < 0 || f.port > 65535 {
		return s, usage("--port %d is not a port: use a number from 1 to 65535", f.port)
	}
	var err error
	s.Trust, err = f.trust()
	return s, err
}

// parseRange reads a range, or an address for one of itself alone.
func parseRange(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Prefix(a.BitLen())
	}
	return netip.ParsePrefix(text)
}

// trust is how a controller has to prove itself before it is sent anything
// secret.
func (f surveyFlags) trust() (func(driver.Found) (site.Trust, error), error) {
	if err := oneTrust(f.ca != "", len(f.fingerprints) > 0, f.firstUse); err != nil {
		return nil, err
	}
	switch {
	case f.ca != "":
		return f.byCA()
	case len(f.fingerprints) > 0:
		return f.byFingerprint()
	case f.firstUse:
		return func(found driver.Found) (site.Trust, error) { return site.Trust{Fingerprint: found.Fingerprint}, nil }, nil
	}
	return func(driver.Found) (site.Trust, error) { return site.Trust{}, nil }, nil
}

func (f surveyFlags) byCA() (func(driver.Found) (site.Trust, error), error) {
	pem, _, err := readBounded(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca: %s holds no certificate in PEM form", f.ca)
	}
	return func(driver.Found) (site.Trust, error) { return site.Trust{CA: string(pem)}, nil }, nil
}

// fingerprintOf reads the digest of a certificate as tools print it, with colons or without, into the form of site.Trust.
func fingerprintOf(text string) (string, error) {
	digits := site.HexDigest(text)
	if !artifact.IsDigest(digits) {
		return "", usage("--fingerprint %q is not a SHA-256 digest: 64 hex digits, with or without colons and \"sha256:\" before them", text)
	}
	return "sha256:" + digits, nil
}

func (f surveyFlags) byFingerprint() (func(driver.Found) (site.Trust, error), error) {
	var known []string
	for _, text := range f.fingerprints {
		fingerprint, err := fingerprintOf(text)
		if err != nil {
			return nil, err
		}
		known = append(known, fingerprint)
	}
	return func(found driver.Found) (site.Trust, error) {
		if !slices.Contains(known, found.Fingerprint) {
			return site.Trust{}, fmt.Errorf("its certificate %s does not match --fingerprint", found.Fingerprint)
		}
		return site.Trust{Fingerprint: found.Fingerprint}, nil
	}, nil
}

// runSurvey looks, and shows how far it is.
func (a *app) runSurvey(ctx context.Context, s discovery.Survey) ([]site.Met, int, error) {
	told, ended := a.progress()
	defer ended()
	s.Progress = told
	return s.Run(ctx)
}

// oneTrust refuses several ways to trust at once, of which one would be passed
// over without a word.
func oneTrust(ways ...bool) error {
	given := slices.DeleteFunc(ways, func(given bool) bool { return !given })
	if len(given) > 1 {
		return usage("--ca, --fingerprint and --trust-first-use are three ways to trust: choose one")
	}
	return nil
}

// hasDesign says whether a folder may hold a design.
func hasDesign(dir string) bool {
	there, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(there, func(d os.DirEntry) bool {
		return strings.HasSuffix(d.Name(), ".cue") || d.Name() == "sites" || d.Name() == "cue.mod"
	})
}
