package design

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/site"
)

// decode turns a tree into one of the site's types, as encoding/json would its
// plain form, but without writing the text in between: a large site has a
// million values. Broken and open leaves are left out. That it fails means that
// the schema allows what the types do not.
func decode(t *tree, into any, at site.Finding, found *findings) {
	err := decodeTree(t, reflect.ValueOf(into).Elem())
	if err == nil {
		return
	}
	at.Code, at.Severity = "undecodable", site.SeverityError
	at.Message = "a value passes the schema but cannot be used: " + err.Error()
	at.Why = "Slipway does not apply a design that it does not understand in full."
	at.Fix = "Change the value that the message names."
	found.add(at)
}

func decodeTree(t *tree, v reflect.Value) error {
	if t.fields == nil {
		return t.common.decodedInto(v, func() error { return decodeValue(t.value, v) })
	}
	if v.Kind() == reflect.Interface {
		v.Set(reflect.ValueOf(t.plain()))
		return nil
	}
	return t.common.decodedInto(v, func() error {
		return decodeFields(v, len(t.fields), func(set func(string, func(reflect.Value) error) error) error {
			for key, f := range t.fields {
				if f.broken || f.open {
					continue
				}
				if err := set(key, func(v reflect.Value) error { return decodeTree(f, v) }); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// decodeFields sets the fields of a struct, or the entries of a map, that each
// goes through.
func decodeFields(v reflect.Value, n int, each func(set func(string, func(reflect.Value) error) error) error) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeFields(v.Elem(), n, each)
	case reflect.Struct:
		fields := fieldsByName(v.Type())
		err := each(func(name string, value func(reflect.Value) error) error {
			index, ok := fields[name]
			if !ok {
				return fmt.Errorf("unknown field %q", name)
			}
			if err := value(v.FieldByIndex(index)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
		if d, ok := v.Addr().Interface().(site.Digester); ok {
			d.SettleDigests()
		}
		return err
	case reflect.Map:
		v.Set(reflect.MakeMapWithSize(v.Type(), n))
		key, entry := reflect.New(v.Type().Key()).Elem(), v.Type().Elem()
		return each(func(name string, value func(reflect.Value) error) error {
			key.SetString(name)
			x := reflect.New(entry).Elem()
			if err := value(x); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			v.SetMapIndex(key, x)
			return nil
		})
	}
	return fmt.Errorf("fields do not fit into %s", v.Type())
}

func decodeValue(value any, v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(value, v.Elem())
	}
	switch x := value.(type) {
	case nil:
		return nil
	case map[string]any:
		return decodePlain(x, v)
	case []any:
		return decodeList(x, v)
	case string:
		if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			return u.UnmarshalText([]byte(x))
		}
	}
	return decodeScalar(value, v)
}

func decodeScalar(value any, v reflect.Value) error {
	switch x := value.(type) {
	case string:
		if v.Kind() == reflect.String {
			v.SetString(x)
			return nil
		}
		if n, err := strconv.ParseInt(x, 10, 64); err == nil && v.CanInt() {
			return decodeScalar(n, v) // a count with quotes
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(x)
			return nil
		}
	case int64:
		if v.CanInt() && !v.OverflowInt(x) {
			v.SetInt(x)
			return nil
		}
		if v.Kind() == reflect.String {
			return decodeValue(strconv.FormatInt(x, 10), v) // a count without quotes
		}
	}
	if v.Kind() == reflect.Interface {
		v.Set(reflect.ValueOf(value))
		return nil
	}
	return fmt.Errorf("%v does not fit into %s", value, v.Type())
}

func decodePlain(m map[string]any, v reflect.Value) error {
	if v.Kind() == reflect.Interface {
		v.Set(reflect.ValueOf(m))
		return nil
	}
	return decodeFields(v, len(m), func(set func(string, func(reflect.Value) error) error) error {
		for key, x := range m {
			if err := set(key, func(v reflect.Value) error { return decodeValue(x, v) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func decodeList(list []any, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Interface:
		v.Set(reflect.ValueOf(list))
		return nil
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i, x := range list {
			if err := decodeValue(x, v.Index(i)); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	}
	return fmt.Errorf("a list does not fit into %s", v.Type())
}

var fieldNames sync.Map // of reflect.Type to map[string][]int

// fieldsByName are the fields of a struct by their names in JSON, those of
// embedded structs among them.
func fieldsByName(t reflect.Type) map[string][]int {
	if known, ok := fieldNames.Load(t); ok {
		return known.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" && f.IsExported() {
			fields[name] = f.Index
		}
	}
	fieldNames.Store(t, fields)
	return fields
}
