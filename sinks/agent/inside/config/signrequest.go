package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/pem"
)

// The program on the machine has no package net, so no crypto/x509 either. These are the few forms that a new key and
// its signing request need: PKCS #8 (RFC 5958), SEC 1 (RFC 5915) and PKCS #10 (RFC 2986).

var (
	oidEC       = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	oidP256     = asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}
	oidECDSA256 = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}
)

type algorithm struct {
	ID    asn1.ObjectIdentifier
	Curve asn1.ObjectIdentifier `asn1:"optional"`
}

type publicKey struct {
	Algorithm algorithm
	Point     asn1.BitString
}

type ecKey struct {
	Version int
	Private []byte
	Public  asn1.BitString `asn1:"explicit,tag:1"`
}

type privateKeyInfo struct {
	Version   int
	Algorithm algorithm
	Key       []byte
}

type requestInfo struct {
	Version    int
	Subject    []asn1.RawValue
	Key        publicKey
	Attributes []asn1.RawValue `asn1:"tag:0"`
}

type signRequest struct {
	Info      asn1.RawValue
	Algorithm algorithm
	Signature asn1.BitString
}

// newKey makes a key of ECDSA P-256 in PEM, and a signing request for it in DER. The request asks for no name: the
// daemon grants those of the design. The point is the public key as a certificate has it.
func newKey() (private, request, point []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	raw, err := key.Bytes()
	if err != nil {
		return nil, nil, nil, err
	}
	defer clear(raw)
	if point, err = key.PublicKey.Bytes(); err != nil {
		return nil, nil, nil, err
	}
	bits := asn1.BitString{Bytes: point, BitLength: 8 * len(point)}
	ec := algorithm{ID: oidEC, Curve: oidP256}
	inner, err := asn1.Marshal(ecKey{Version: 1, Private: raw, Public: bits})
	if err != nil {
		return nil, nil, nil, err
	}
	defer clear(inner)
	outer, err := asn1.Marshal(privateKeyInfo{Algorithm: ec, Key: inner})
	if err != nil {
		return nil, nil, nil, err
	}
	defer clear(outer)
	info, err := asn1.Marshal(requestInfo{Subject: []asn1.RawValue{}, Key: publicKey{ec, bits}, Attributes: []asn1.RawValue{}})
	if err != nil {
		return nil, nil, nil, err
	}
	sum := sha256.Sum256(info)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return nil, nil, nil, err
	}
	request, err = asn1.Marshal(signRequest{
		Info: asn1.RawValue{FullBytes: info}, Algorithm: algorithm{ID: oidECDSA256}, Signature: asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	})
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: outer}), request, point, err
}
