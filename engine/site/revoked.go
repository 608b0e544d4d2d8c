package site

import "time"

// RevocationList is what an authority revoked: the record of it, and the list that it signed.
type RevocationList struct {
	// Authority is the fingerprint of the authority.
	Authority string `json:"authority"`
	// Entries are the revoked certificates that may still be accepted, by serial number. The list may lack the last.
	Entries []RevokedTLS `json:"entries,omitempty"`
	// PEM is the list that was signed last (a CRL), Number its number, Since when it was signed, Until its last moment.
	// PEM is empty before the first one.
	PEM    string    `json:"pem,omitempty"`
	Number int64     `json:"number,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

// RevokedTLS is a revoked certificate.
type RevokedTLS struct {
	Serial string `json:"serial"`
	// Since is when it was entered, in whole seconds, Until the last moment of the certificate.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// IsOver reports whether programs refuse everybody by the list, or there is none.
func (l RevocationList) IsOver(now time.Time) bool { return l.PEM == "" || !now.Before(l.Until) }

// RevokedIn counts the certificates that were revoked.
func RevokedIn(all []TLSCertificate) (n int) {
	for _, c := range all {
		if c.Revoked {
			n++
		}
	}
	return n
}

// RevocationListState is what people see of a list of revoked certificates.
type RevocationListState struct {
	Authority string `json:"authority"`
	Number    int64  `json:"number"`
	// Revoked counts its certificates.
	Revoked int       `json:"revoked"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
}

// State is what people see of the list.
func (l RevocationList) State() RevocationListState {
	return RevocationListState{Authority: l.Authority, Number: l.Number, Revoked: len(l.Entries), Since: l.Since, Until: l.Until}
}

// mostLife is the longest life of a certificate: an entry of which nothing else is known is kept that long.
const mostLife = 400 * 24 * time.Hour

// Read returns an entry that was read from a list, which does not say when the certificate ends.
func (r RevokedTLS) Read() RevokedTLS {
	r.Until = r.Since.Add(mostLife)
	return r
}
