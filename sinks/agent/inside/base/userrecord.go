package base

// wasUser is what was there of an account; New says that there was none.
type wasUser struct {
	New   bool   `json:"new,omitempty"`
	Shell string `json:"shell,omitempty"`
	Keys  bool   `json:"keys,omitempty"` // there was a file of keys
}

// madeUser is what we made of an account.
type madeUser struct {
	// Making is the comment in passwd(5) by which an account is known that we are
	// making; useradd sets it, and it is taken away when Created is noted.
	Making string `json:"making,omitempty"`
	// Created says that the account is ours, and UID what its number is.
	Created bool `json:"created,omitempty"`
	UID     *int `json:"uid,omitempty"`
	// Removed says that we removed it, and Leaving that we began to: userdel(8) writes one file
	// after the other.
	Removed bool     `json:"removed,omitempty"`
	Leaving *leaving `json:"leaving,omitempty"`
	// Groups and Keys are those of the design, and Joined and Added those of them
	// that were not there before us. They are kept of an account that is not ours.
	Groups []string `json:"groups,omitempty"`
	Joined []string `json:"joined,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Added  []string `json:"added,omitempty"`
	Shell  bool     `json:"shell,omitempty"` // the shell is ours
	// Password is the digest of the hash that we set.
	Password string `json:"password,omitempty"`
}

// leaving is an account that is being removed.
type leaving struct {
	GID int `json:"gid"` // of its own group
	UID int `json:"uid,omitempty"`
	// Expires is when nobody could log in to it any more, before the removal had it expire: in
	// days as shadow(5) has them, empty for never.
	Expires string `json:"expires,omitempty"`
}

// isLeaving says whether an account is the one whose removal did not come to its end.
func (m madeUser) isLeaving(l login) bool {
	return m.Leaving != nil && l.uid != 0 && m.Leaving.UID == l.uid
}

// marks says whether an account carries the mark of one that we are making.
func (m madeUser) marks(l login) bool { return m.Making != "" && l.comment == m.Making }

// isHalf says whether an account was being made when useradd(8) was cut off, which writes one file
// after the other: what is in the others is not known.
func (m madeUser) isHalf(l login) bool { return m.marks(l) && !m.Created }

// ours says whether an account is the one that we made, and not another of its name.
func (m madeUser) ours(l login) bool {
	return m.marks(l) || m.Created && m.UID != nil && *m.UID == l.uid
}

// strange says whether somebody else made an account that we were to make, or that is
// in the place of ours.
func (m madeUser) strange(l login, before wasUser) bool {
	return !m.ours(l) && (before.New || m.Created || m.Making != "")
}
