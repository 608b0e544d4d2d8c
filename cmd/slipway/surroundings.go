package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// certificateWarning is how long before its end a certificate counts as wrong, so that there is
// time to renew it.
const certificateWarning = 14 * 24 * time.Hour

// surroundings are the checks of what the daemon serves by files of its host.
func (f *runFlags) surroundings(now time.Time) []site.Check {
	var checks []site.Check
	for _, x := range []struct{ subject, file string }{{"API", f.api.cert}, {"artifact server", f.artifacts.cert}} {
		if x.file != "" {
			checks = append(checks, certificateCheck(x.subject, x.file, now))
		}
	}
	return checks
}

// certificateCheck judges the certificate that a PEM file begins with, as a server shows it.
func certificateCheck(subject, file string, now time.Time) site.Check {
	c := site.Check{Kind: site.CheckCertificate, Subject: subject, Outcome: site.CheckWrong, Seen: now}
	cert, err := firstCertificate(file)
	if err != nil {
		c.Sentence = site.Printable(err.Error())
		c.Release = "put a readable certificate there; until then the server shows the one that it read before"
		return c
	}
	c.Release = "renew the certificate in " + file
	switch at := cert.NotAfter.UTC().Format(time.DateTime) + "Z"; {
	case now.Before(cert.NotBefore):
		c.Sentence = fmt.Sprintf("the certificate in %s is valid only from %s on", file, cert.NotBefore.UTC().Format(time.DateTime)+"Z")
	case !now.Before(cert.NotAfter):
		c.Sentence = fmt.Sprintf("the certificate in %s expired at %s", file, at)
	case cert.NotAfter.Sub(now) < certificateWarning:
		c.Sentence = fmt.Sprintf("the certificate in %s expires at %s, in less than 14 days", file, at)
	default:
		c.Outcome, c.Sentence, c.Release = site.CheckOK, fmt.Sprintf("the certificate in %s is valid until %s", file, at), ""
	}
	return c
}

func firstCertificate(file string) (*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the certificate cannot be read: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: the certificate cannot be read: %w", file, err)
		}
		return cert, nil
	}
	return nil, fmt.Errorf("%s has no certificate", file)
}
