package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// certified are items with the digests of their certificates: for those that are to be signed, a system makes a key and
// asks for its certificate on the way.
func (in *inside) certified(facet string, items []item.Item, from io.Reader, to io.Writer) ([]item.Item, *wire.Error) {
	var all []item.Item
	for _, i := range items {
		var body item.Certificate
		if item.Kind(i.Key) == item.KindCertificates && json.Unmarshal(i.Body, &body) == nil {
			names := in.have[facet][i.Key]["names"]
			if body.Sign {
				chain, refused := askCertificate(i.Key, from, to)
				if refused != nil {
					return nil, refused
				}
				names = item.Digest(chain)
			}
			i.Fields = maps.Clone(i.Fields)
			i.Fields["names"] = names
		}
		all = append(all, i)
	}
	return all, nil
}

// askCertificate has the daemon sign a new key.
func askCertificate(key string, from io.Reader, to io.Writer) ([]byte, *wire.Error) {
	failed := func(err error) ([]byte, *wire.Error) { return nil, &wire.Error{Class: wire.Failed, Text: err.Error()} }
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return failed(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return failed(err)
	}
	if err := wire.Write(to, wire.Frame{Want: &wire.Want{For: key, Sign: &wire.Sign{Request: request, Clock: time.Now()}}}); err != nil {
		return failed(err)
	}
	var b wire.Blob
	if err := wire.Read(from, &b); err != nil {
		return failed(err)
	}
	if b.Refused != "" {
		return nil, &wire.Error{Class: wire.Refused, Text: b.Refused}
	}
	chain := make([]byte, min(b.Size, wire.MaxFrame))
	if _, err := io.ReadFull(from, chain); err != nil {
		return failed(err)
	}
	return chain, nil
}
