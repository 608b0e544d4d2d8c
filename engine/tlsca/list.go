package tlsca

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// MostList bounds a list of revoked certificates in PEM, in bytes. An entry has about 60 of them.
const MostList = 4 << 20

const listType = "X509 CRL"

// Revoked is one entry of a list of revoked certificates.
type Revoked struct {
	// Serial is in lower-case hex, as in Certificate.
	Serial string
	// Since is when the list had it first, in whole seconds.
	Since time.Time
}

// List is a list of revoked certificates of one authority (a CRL, RFC 5280).
type List struct {
	// PEM is the list itself.
	PEM string
	// Number increases from each list of the authority to the next.
	Number int64
	// Revoked are its entries, by serial number.
	Revoked []Revoked
	// Since is when it was signed, Until when programs that read it refuse every certificate of the authority.
	Since, Until time.Time
}

// Due is when the list is to be replaced: at half of its life. A program that reads a list which is over refuses
// everybody, so there is more time than for a certificate.
func (l List) Due() time.Time { return l.Since.Add(l.Until.Sub(l.Since) / 2) }

// Has reports whether a certificate is in the list.
func (l List) Has(serial string) bool {
	return slices.ContainsFunc(l.Revoked, func(r Revoked) bool { return r.Serial == serial })
}

// List signs a list of revoked certificates. It begins Skew before now, since clocks differ, and ends with the
// authority at the latest. Its error says why this authority can sign none.
func (a *Authority) List(revoked []Revoked, number int64, life time.Duration, now time.Time) (List, error) {
	if err := within(a.certificate, now); err != nil {
		return List{}, err
	}
	if a.certificate.KeyUsage != 0 && a.certificate.KeyUsage&x509.KeyUsageCRLSign == 0 || len(a.certificate.SubjectKeyId) == 0 {
		return List{}, fmt.Errorf("the certificate of the TLS authority %s does not permit lists of revoked certificates: have the root sign one with the key usage cRLSign and a subject key identifier", subject(a.certificate))
	}
	if number < 1 || life <= 0 {
		return List{}, fmt.Errorf("a list of revoked certificates needs a number from 1 on and a life, and not %d and %s", number, life)
	}
	until := now.Add(life)
	if until.After(a.certificate.NotAfter) {
		until = a.certificate.NotAfter
	}
	template := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: now.Add(-Skew).UTC(), NextUpdate: until.UTC()}
	for _, r := range revoked {
		serial, is := new(big.Int).SetString(r.Serial, 16)
		if !is || serial.Sign() <= 0 {
			return List{}, fmt.Errorf("%.80q is not the serial number of a certificate", r.Serial)
		}
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: serial, RevocationTime: r.Since.UTC()})
	}
	slices.SortFunc(template.RevokedCertificateEntries, func(x, y x509.RevocationListEntry) int { return x.SerialNumber.Cmp(y.SerialNumber) })
	issuer := *a.certificate
	issuer.KeyUsage |= x509.KeyUsageCRLSign // a certificate without any usage permits all
	der, err := x509.CreateRevocationList(rand.Reader, template, &issuer, a.signer)
	if err != nil {
		return List{}, fmt.Errorf("sign a list of revoked certificates: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: listType, Bytes: der})
	if len(text) > MostList {
		return List{}, fmt.Errorf("a list of %d revoked certificates has %d bytes, and programs are given at most %d: replace the authority by the next epoch", len(revoked), len(text), MostList)
	}
	return readList(text, a.certificate)
}

// ErrList is wrapped when a text is not a list of revoked certificates that an authority has signed.
var ErrList = errors.New("not a list of revoked certificates of this authority")

// ReadList reads a list of revoked certificates in PEM that the authority has signed. It may be over.
func (a *Authority) ReadList(text []byte) (List, error) { return readList(text, a.certificate) }

func readList(text []byte, authority *x509.Certificate) (List, error) {
	if len(text) > MostList {
		return List{}, fmt.Errorf("%w: it has %d bytes, and at most %d are read", ErrList, len(text), MostList)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != listType || len(bytes.TrimSpace(rest)) > 0 {
		return List{}, fmt.Errorf("%w: it is not one block %q in PEM", ErrList, listType)
	}
	crl, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		return List{}, fmt.Errorf("%w: %w", ErrList, err)
	}
	issuer := *authority
	issuer.KeyUsage |= x509.KeyUsageCRLSign
	switch {
	case !bytes.Equal(crl.RawIssuer, authority.RawSubject):
		return List{}, fmt.Errorf("%w: it is of %.100q", ErrList, crl.Issuer.String())
	case crl.CheckSignatureFrom(&issuer) != nil:
		return List{}, fmt.Errorf("%w: its signature is not by the key of the authority", ErrList)
	case crl.Number == nil || !crl.Number.IsInt64():
		return List{}, fmt.Errorf("%w: its number is missing or too large", ErrList)
	}
	l := List{PEM: string(text), Number: crl.Number.Int64(), Since: crl.ThisUpdate.Add(Skew).UTC(), Until: crl.NextUpdate.UTC()}
	for _, r := range crl.RevokedCertificateEntries {
		l.Revoked = append(l.Revoked, Revoked{Serial: hex.EncodeToString(r.SerialNumber.Bytes()), Since: r.RevocationTime.UTC()})
	}
	slices.SortFunc(l.Revoked, func(x, y Revoked) int { return cmp.Compare(x.Serial, y.Serial) })
	return l, nil
}
