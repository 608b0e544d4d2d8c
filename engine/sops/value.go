package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// encrypted matches an encrypted value in a file.
var encrypted = regexp.MustCompile(`^ENC\[AES256_GCM,data:([A-Za-z0-9+/=]+),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+),type:([a-z]+)\]$`)

const (
	nonceSize = 32
	tagSize   = 16
)

var (
	errClear   = errors.New("is not encrypted, and the file says that it is: encrypt the file with SOPS, and replace the value wherever it is valid")
	errChanged = errors.New("cannot be decrypted: it was changed, or moved to another key. Restore the file from Git")
)

// decrypt decrypts a value. The additional data binds it to its place.
func decrypt(value string, key []byte, additional string) (any, error) {
	if value == "" {
		return "", nil
	}
	m := encrypted.FindStringSubmatch(value)
	if m == nil {
		return nil, errClear
	}
	var parts [3][]byte
	for i := range parts {
		b, err := base64.StdEncoding.DecodeString(m[i+1])
		if err != nil {
			return nil, errChanged
		}
		parts[i] = b
	}
	data, nonce, tag := parts[0], parts[1], parts[2]
	if len(nonce) != nonceSize && len(nonce) != 12 || len(tag) != tagSize {
		return nil, errChanged
	}
	gcm, err := sealer(key, len(nonce))
	if err != nil {
		return nil, err
	}
	clear, err := gcm.Open(nil, nonce, append(data, tag...), []byte(additional))
	if err != nil {
		return nil, errChanged
	}
	return typed(string(clear), m[4])
}

func typed(s, kind string) (v any, err error) {
	switch kind {
	case "str", "bytes":
		return s, nil
	case "int":
		v, err = strconv.Atoi(s)
	case "float":
		v, err = strconv.ParseFloat(s, 64)
	case "bool":
		v, err = strconv.ParseBool(s)
	case "time":
		var t time.Time
		err = t.UnmarshalText([]byte(s))
		v = t
	default:
		return nil, fmt.Errorf("is of the type %q, which Slipway does not know: write it as a text", kind)
	}
	if err != nil {
		return nil, errChanged
	}
	return v, nil
}

func sealer(key []byte, nonce int) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("the key of the file: %w", err)
	}
	return cipher.NewGCMWithNonceSize(block, nonce)
}

// encrypt encrypts a text.
func encrypt(value string, key []byte, additional string) (string, error) {
	return encryptAs(value, "str", key, additional)
}

// encryptAs encrypts a value as a SOPS type.
func encryptAs(value, kind string, key []byte, additional string) (string, error) {
	if value == "" {
		return "", nil
	}
	gcm, err := sealer(key, nonceSize)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, nonceSize)
	rand.Read(nonce) // never fails
	out := gcm.Seal(nil, nonce, []byte(value), []byte(additional))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", b64(out[:len(out)-tagSize]), b64(nonce), b64(out[len(out)-tagSize:]), kind), nil
}

// plain returns the value of an unencrypted leaf.
func plain(n *yaml.Node) (v any, err error) {
	defer func() {
		if recover() != nil { // of the YAML library
			v, err = nil, fmt.Errorf("%d: the value cannot be read", n.Line)
		}
	}()
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("%d: the value cannot be read", n.Line)
	}
	switch v.(type) {
	case string, int, float64, bool, time.Time:
		return v, nil
	}
	return nil, fmt.Errorf("%d: the value is neither a text, a number, a truth value nor a time: write it as a text", n.Line)
}

// bytesOf returns a value's bytes for the digest.
func bytesOf(v any) []byte {
	switch v := v.(type) {
	case string:
		return []byte(v)
	case int:
		return strconv.AppendInt(nil, int64(v), 10)
	case float64:
		return strconv.AppendFloat(nil, v, 'f', -1, 64)
	case bool:
		if v {
			return []byte("True")
		}
		return []byte("False")
	case time.Time:
		b, _ := v.MarshalText() // it was read from one
		return b
	}
	return nil
}
