package event

// AttributeName reports whether CloudEvents allows name for an attribute.
func AttributeName(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// OwnAttributes returns the attributes that every event has or that the engine uses.
func OwnAttributes() []string {
	return []string{
		"id", "source", "specversion", "type", "time", "data", "tenantid", "workflowid", "executionid", "taskid",
		DefinitionAttribute, AttemptAttribute, ReplayAttribute, "firstfailure", "firstentry", "packed",
	}
}
