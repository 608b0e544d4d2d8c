package pkcs11

import (
	"crypto/ecdh"
	"crypto/rsa"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
)

// The sizes of RSA keys that are used, in bits.
const (
	leastRSA = 2048
	mostRSA  = 8192
)

// rsa returns the public half of an RSA key.
func (f *Found) rsa() (*rsa.PublicKey, error) {
	n, e := new(big.Int).SetBytes(f.Modulus), new(big.Int).SetBytes(f.Exponent)
	switch {
	case n.BitLen() < leastRSA || n.BitLen() > mostRSA:
		return nil, fmt.Errorf("an RSA key of %d bits is not used: make one of %d to %d", n.BitLen(), leastRSA, mostRSA)
	case e.BitLen() > 31 || e.Int64() < 3:
		return nil, errors.New("its public exponent is unusual: make a key with the exponent 65537")
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

// curves are the curves that are used, by their names in ASN.1 (RFC 5480).
var curves = map[string]ecdh.Curve{
	"1.2.840.10045.3.1.7": ecdh.P256(),
	"1.3.132.0.34":        ecdh.P384(),
	"1.3.132.0.35":        ecdh.P521(),
}

// point returns the public half of a key on a curve. The standard has the point within an OCTET STRING; some modules
// give it without.
func (f *Found) point() (*ecdh.PublicKey, error) {
	var name asn1.ObjectIdentifier
	if rest, err := asn1.Unmarshal(f.Params, &name); err != nil || len(rest) > 0 || curves[name.String()] == nil {
		return nil, errors.New("its curve is not one of P-256, P-384 and P-521: make another key")
	}
	point := f.Point
	var within []byte
	if rest, err := asn1.Unmarshal(f.Point, &within); err == nil && len(rest) == 0 {
		point = within
	}
	public, err := curves[name.String()].NewPublicKey(point)
	if err != nil {
		return nil, errors.New("its public point is not on its curve")
	}
	return public, nil
}
