package pkcs11

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

var (
	errWrongPIN  = errors.New("the token refused the PIN")
	errPINLocked = errors.New("the PIN of the token is locked after wrong attempts: unlock it with the vendor's tool and the PUK or the security officer's PIN")
	// errRefused is wrapped when the module refused a call.
	errRefused = errors.New("the module refused")
)

// refusal is a call that the module refused. It is errRefused.
type refusal struct {
	call string
	code uint64
}

func (r refusal) Error() string {
	return fmt.Sprintf("%v %s (%s)", errRefused, clean(r.call), codeName(r.code))
}

func (r refusal) Is(err error) bool { return err == errRefused }

// beforePIN are the results of C_Login that say that the device failed or is not there. With any other one, such as
// CKR_FUNCTION_FAILED or one of the vendor's, the token may have seen the PIN.
var beforePIN = []uint64{0x30, 0x31, 0x32, 0xe0, 0xe1}

// String returns the token as people know it.
func (t Token) String() string {
	return fmt.Sprintf("%q (serial number %s)", clean(t.Label), clean(t.Serial))
}

// String returns the key as people know it.
func (k Key) String() string {
	if k.Label == "" {
		return "with the ID " + hex.EncodeToString(k.ID)
	}
	return fmt.Sprintf("%q", clean(k.Label))
}

// clean returns a text of a module or its program without what would disturb a terminal or a log.
func clean(text string) string {
	const most = 200
	text = strings.ToValidUTF8(text, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// explain says what a trouble means.
func (s *settings) explain(t *Trouble) error {
	switch t.Kind {
	case NotLoaded:
		return fmt.Errorf("the module %s cannot be loaded: %s: install what it needs, or correct the line \"module\" in %s", s.module, clean(t.Text), s.file)
	case NoModule:
		return fmt.Errorf("%s is not a PKCS#11 module: correct the line \"module\" in %s", s.module, s.file)
	case NoToken:
		return fmt.Errorf("the token is not there (%s): plug it in", others(t.Tokens))
	case ManyTokens:
		return fmt.Errorf("more than one token fits (%s): name one with --token SERIAL", others(t.Tokens))
	case NoPIN:
		return errors.New("the token has no PIN for users yet: set one with the vendor's tool")
	case PINPad:
		return errors.New("the PIN of this token has to be typed on its own keys, and nobody is there to do so: take another token")
	case PINLocked:
		return errPINLocked
	case LastAttempt:
		return errors.New("no PIN was sent, because another wrong one would lock the token: log in once with the vendor's tool and the right PIN, such as pkcs11-tool --login --list-objects")
	case WrongPIN:
		return errWrongPIN
	case NoKey:
		return errors.New("the token has no private key of this name: list them with pkcs11-tool --login --list-objects")
	case ManyKeys:
		return errors.New("the token has more than one private key of this name: name one by its ID with --key-id")
	case NoPublic:
		return errors.New("the token does not have the public half of the key: import it beside the private one, with the same ID")
	case Refused:
		return refusal{t.Call, t.Code}
	}
	return errGarbage
}

func others(tokens []Token) string {
	if len(tokens) == 0 {
		return "the module sees none"
	}
	var all []string
	for _, t := range tokens[:min(len(tokens), 8)] {
		all = append(all, t.String())
	}
	return "the module sees " + strings.Join(all, ", ")
}

// codes are names of results (PKCS #11 2.40, section 5.1) that people search for.
var codes = map[uint64]string{
	0x05: "CKR_GENERAL_ERROR", 0x06: "CKR_FUNCTION_FAILED", 0x07: "CKR_ARGUMENTS_BAD", 0x20: "CKR_DATA_INVALID", 0x21: "CKR_DATA_LEN_RANGE",
	0x30: "CKR_DEVICE_ERROR", 0x31: "CKR_DEVICE_MEMORY", 0x32: "CKR_DEVICE_REMOVED", 0x40: "CKR_ENCRYPTED_DATA_INVALID", 0x41: "CKR_ENCRYPTED_DATA_LEN_RANGE",
	0x54: "CKR_FUNCTION_NOT_SUPPORTED", 0x60: "CKR_KEY_HANDLE_INVALID", 0x63: "CKR_KEY_TYPE_INCONSISTENT", 0x68: "CKR_KEY_FUNCTION_NOT_PERMITTED",
	0x70: "CKR_MECHANISM_INVALID", 0x71: "CKR_MECHANISM_PARAM_INVALID", 0xa1: "CKR_PIN_INVALID", 0xa2: "CKR_PIN_LEN_RANGE", 0xa3: "CKR_PIN_EXPIRED",
	0xd0: "CKR_TEMPLATE_INCOMPLETE", 0xd1: "CKR_TEMPLATE_INCONSISTENT", 0xe0: "CKR_TOKEN_NOT_PRESENT", 0xe1: "CKR_TOKEN_NOT_RECOGNIZED", 0x101: "CKR_USER_NOT_LOGGED_IN",
}

func codeName(code uint64) string {
	if name, ok := codes[code]; ok {
		return name
	}
	return fmt.Sprintf("CKR 0x%x", code)
}
