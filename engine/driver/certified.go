package driver

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Certified is a Machine that logs in over SSH, and may do so by a certificate that is
// signed for each login.
type Certified interface {
	// Certify has each login from then on show a certificate besides what its endpoint's
	// credential proves; the zero value ends that. It sends nothing.
	Certify(Certificates)
}

// Certificates are what logins by certificate take.
type Certificates struct {
	// Sign gives the certificate of a public key, "ssh-ed25519 AAAA…", for one login to the
	// machine's account. Nil is for no certificate.
	Sign func(publicKey, account string) (certificate string, err error)
	// Why says why there is no certificate although there should be one; empty where there
	// is one, or none should be.
	Why string
	// Last has the credential tried first: the design no longer asks for certificates, and
	// the system may still know nothing else.
	Last bool
}

// HostCertified is a Machine that is reached over SSH, whose system may prove itself by
// certificates, and gets them.
type HostCertified interface {
	// CertifyHost says which certificates count from then on, besides the trust of the endpoint,
	// and how they are signed. The zero value is for none. It sends nothing.
	CertifyHost(HostCertificates)
}

// HostCertificates are what a system proves itself by besides its host keys.
type HostCertificates struct {
	// Node is the name that each has to have, Authorities the public keys that may have signed it,
	// Serials the numbers of those that count.
	Node        string
	Authorities []string
	Serials     []uint64
	// Valid judges what was signed for the host keys, "ssh-ed25519 AAAA…". Its error says why there can be
	// none. It signs nothing. Nil is for a daemon that signs none, for which Why is the reason.
	Valid func(hostKeys []string) (SignedHostKeys, error)
	// Sign gives certificates for the host keys, and records them before. The keys must be those
	// that the system has proven to have on a connection on which it has proven itself. It signs
	// again only what Valid does not have.
	Sign func(ctx context.Context, hostKeys []string) (certificates []string, err error)
	Why  string
}

// TLSCertified is a Machine whose system makes keys of TLS, and gets certificates for them.
type TLSCertified interface {
	// CertifyTLS says which certificates count from then on, and how they are signed. The zero value is
	// for none. It sends nothing.
	CertifyTLS(TLSCertificates)
}

// TLSCertificates are the TLS certificates of a system.
type TLSCertificates struct {
	// Valid gives the certificate of a name in the design that has this item.Digest, of all that the system was
	// given: the system may have one that is revoked or over. Its serial number is empty where it was given none
	// such. Why says why it is to be replaced, whatever it is good for; empty if it need not be. By its error there
	// can be none. It signs nothing. Nil is for a daemon that signs none, for which Why below is the reason.
	Valid func(name, digest string) (is site.TLSCertificate, why string, err error)
	// Sign gives the certificates to show for a signing request, in PEM, and records the new one before.
	// The request must come on a connection on which the system has proven itself.
	Sign func(ctx context.Context, r TLSRequest) (chain string, err error)
	// Lists gives the present lists of revoked certificates, in PEM one after the other. Its error says why there are
	// none. It signs nothing. It is set where Valid is.
	Lists func() (string, error)
	Why   string
}

// TLSRequest is a request for a certificate.
type TLSRequest struct {
	// Name is that of the design.
	Name string
	// Request is in the form of PKCS #10 (DER). Its key alone counts.
	Request []byte
	// Clock is what the system's clock shows.
	Clock time.Time
	// HostKeys are those that the system has proven to have on the connection, "ssh-ed25519 AAAA…"; none where it
	// cannot prove more than the one by which it was let in.
	HostKeys []string
}

// SignedHostKeys is what was signed for the host keys of a system.
type SignedHostKeys struct {
	// Certificates are those that need not be replaced yet. Why says why new ones are to be signed for other keys;
	// empty if for none.
	Certificates []string
	Why          string
	// Given are for each key the certificates that still count, oldest first: the system may show any of them.
	Given [][]string
}
