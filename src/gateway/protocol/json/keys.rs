//! The keys that are looked for.

macro_rules! keys {
    ($($key:ident => $($name:literal)|+),* $(,)?) => {
        /// A step on the way to a value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::gateway::protocol) enum Key {
            /// A key that nobody looks for.
            Other,
            /// An element of an array.
            Item,
            $($key),*
        }

        impl Key {
            pub(in crate::gateway::protocol) fn of(name: &[u8]) -> Self {
                match name {
                    $($($name)|+ => Self::$key,)*
                    _ => Self::Other,
                }
            }
        }
    };
}

keys! {
    Type => b"type",
    Model => b"model" | b"modelVersion",
    Stream => b"stream",
    StreamOptions => b"stream_options",
    IncludeUsage => b"include_usage",
    Message => b"message",
    Response => b"response",
    Error => b"error",
    Detail => b"detail",
    Choices => b"choices",
    Candidates => b"candidates",
    FinishReason => b"finishReason",
    PromptFeedback => b"promptFeedback",
    BlockReason => b"blockReason",
    Usage => b"usage" | b"usageMetadata",
    Iterations => b"iterations",
    Cost => b"cost",
    Input => b"input_tokens" | b"prompt_tokens" | b"promptTokenCount",
    InputDetails => b"input_tokens_details" | b"prompt_tokens_details",
    CacheRead => b"cached_tokens" | b"cache_read_input_tokens" | b"cachedContentTokenCount",
    CacheHit => b"prompt_cache_hit_tokens",
    CacheWrite => b"cache_write_tokens" | b"cache_creation_input_tokens",
    CacheCreation => b"cache_creation",
    CacheWriteShort => b"ephemeral_5m_input_tokens",
    CacheWriteLong => b"ephemeral_1h_input_tokens",
    Output => b"output_tokens" | b"completion_tokens" | b"candidatesTokenCount",
    OutputDetails => b"output_tokens_details" | b"completion_tokens_details",
    Reasoning => b"reasoning_tokens" | b"thinking_tokens" | b"thoughtsTokenCount",
    ToolInput => b"toolUsePromptTokenCount",
    Total => b"total_tokens" | b"totalTokenCount",
}
