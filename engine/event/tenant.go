package event

// TenantName reports whether a name is allowed for a tenant: [a-z0-9][a-z0-9._-]{0,62}.
func TenantName(name string) bool {
	const longest = 63
	for i, c := range []byte(name) {
		alphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= longest
}
